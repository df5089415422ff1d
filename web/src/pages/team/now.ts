/** Sessions that work or wait by person, as the server groups them for the page of the team. */
import type { CurrentSession, PersonNow, SessionRow } from "../../api/shapes";

export interface CurrentRows {
  working: SessionRow[];
  waiting: SessionRow[];
}

/** Whether these sessions are those of a team. */
export function isOfTeam({ working, waiting }: CurrentRows): boolean {
  return [...working, ...waiting].some((row) => row.person !== null || row.machine !== null);
}

/** The persons by name, and those without one last; of each the sessions that work before those that wait. */
export function nowByPerson(rows: readonly SessionRow[]): PersonNow[] {
  const found = new Map<string, CurrentSession[]>();
  for (const row of rows.toSorted(inOrder)) {
    const state = row.state === "waiting" ? "waiting" : row.state === "working" ? "working" : null;
    if (state === null) continue;
    const name = row.person ?? "";
    found.set(name, [...(found.get(name) ?? []), currentOf(row, state)]);
  }
  const names = [...found.keys()].toSorted((one, other) => Number(one === "") - Number(other === "") || compared(one.toLowerCase(), other.toLowerCase()));
  return names.map((name) => ({ person: name || null, sessions: found.get(name) ?? [] }));
}

function inOrder(one: SessionRow, other: SessionRow): number {
  const waits = Number(one.state === "waiting") - Number(other.state === "waiting");
  return waits || compared(other.last_at ?? "", one.last_at ?? "") || compared(one.key, other.key);
}

function compared(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}

function currentOf(row: SessionRow, state: CurrentSession["state"]): CurrentSession {
  const { key: session, session_id, agent, title, project, person, machine } = row;
  const since = state === "waiting" ? row.last_at : row.started_at;
  return { session, session_id, agent, title, project, state, person, machine, since };
}
