/** The list that was shown last, in this window: sessions lead back to it, and on to their neighbours in it. */

export interface SeenList {
  /** The search part of its address. */
  search: string;
  keys: readonly string[];
}

export interface Neighbours {
  /** The address of the list. */
  back: string;
  previous: string | null;
  next: string | null;
}

const KEPT = "agenttrace.list";
const MOST = 2000;

export function keepList(list: SeenList): void {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify({ ...list, keys: list.keys.slice(0, MOST) }));
  } catch {
    // Storage is full or forbidden: neighbours are by time then.
  }
}

/** What was kept; null for anything else. */
export function readList(kept: string | null): SeenList | null {
  try {
    const value: unknown = JSON.parse(kept ?? "null");
    if (typeof value !== "object" || value === null) return null;
    const { search, keys } = value as Partial<Record<"search" | "keys", unknown>>;
    const fits = typeof search === "string" && Array.isArray(keys) && keys.every((key) => typeof key === "string");
    return fits ? { search, keys: keys as string[] } : null;
  } catch {
    return null;
  }
}

export function keptList(): SeenList | null {
  try {
    return readList(sessionStorage.getItem(KEPT));
  } catch {
    return null;
  }
}

/** The neighbours of a session in a list; null where the list does not have it. */
export function neighboursIn(list: SeenList | null, key: string): Neighbours | null {
  const at = list?.keys.indexOf(key) ?? -1;
  if (!list || at < 0) return null;
  const search = list.search.replace(/^\?/, "");
  return { back: search === "" ? "/sessions" : `/sessions?${search}`, previous: list.keys[at - 1] ?? null, next: list.keys[at + 1] ?? null };
}

/** The session that began right after another one, of those in order of their beginning. */
export function firstAfter<T extends { key: string; started_at: string | null }>(rows: readonly T[], own: { key: string; started_at: string | null }): T | null {
  const began = own.started_at;
  return rows.find((row) => row.key !== own.key && row.started_at !== null && began !== null && row.started_at >= began) ?? null;
}
