/** The question of the insights page in its address, and the links of its rows. */
import type { Finding, InsightSpan } from "../../api/shapes";
import type { Params } from "../../url";
import { address } from "../../url";
import { timeOf } from "../sessions/filters";

/** All time, in the address; nothing in it means the usual time. */
export const ALWAYS = "all";
export const USUAL = "30d";

export const TABS = ["findings", "tools", "models"] as const;
export const TOOL_SPLITS = ["project", "model", "agent", "person", "machine"] as const;
export const MODEL_SPLITS = ["project", "agent", "person", "machine"] as const;
export type Split = (typeof TOOL_SPLITS)[number];

export interface Question {
  since: string;
  until: string;
  agents: string[];
  projects: string[];
  models: string[];
  machines: string[];
  persons: string[];
}

export function questionOf(search: string): Question {
  const params = new URLSearchParams(search);
  const since = params.get("since") === ALWAYS ? ALWAYS : timeOf(params.get("since"));
  const until = timeOf(params.get("until"));
  return {
    since: since || (until ? ALWAYS : USUAL),
    until,
    agents: params.getAll("agent"),
    projects: params.getAll("project"),
    models: params.getAll("model"),
    machines: params.getAll("machine"),
    persons: params.getAll("person"),
  };
}

/** The question as the API takes it. */
export function apiParams({ since, until, agents, projects, models, machines, persons }: Question): Params {
  return { since: since === ALWAYS ? null : since, until, agent: agents, project: projects, model: models, machine: machines, person: persons };
}

/** The question as values of an address; defaults are not written. */
export function questionParams({ since, until, agents, projects, models, machines, persons }: Question): Params {
  return {
    since: since === (until ? ALWAYS : USUAL) ? null : since,
    until: until || null,
    agent: agents,
    project: projects,
    model: models,
    machine: machines,
    person: persons,
  };
}

/** The same question about one part only. */
export function narrowed(question: Question, by: Split | null, part: string | null): Question {
  if (by === null || part === null || part === "") return question;
  return { ...question, [`${by}s`]: [part] };
}

/** A span in its session; a lost cache among the requests. */
export function placeOf(span: InsightSpan, kind?: Finding["kind"]): string {
  return address(`/sessions/${span.session}`, { view: kind === "cache_break" ? "requests" : null, span: span.span_id });
}

/** Rows in the order of a value; those without it are last. */
export function sorted<T>(rows: readonly T[], value: (row: T) => number | string | null, order: "asc" | "desc"): T[] {
  const sign = order === "asc" ? 1 : -1;
  return rows.toSorted((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return a < b ? -sign : a > b ? sign : 0;
  });
}

/** The largest amount: amounts in different currencies are not added. */
export function largest(costs: Record<string, number>): number | null {
  const amounts = Object.values(costs);
  return amounts.length > 0 ? Math.max(...amounts) : null;
}
