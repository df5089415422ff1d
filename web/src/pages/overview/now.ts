/** Current sessions: those of the overview, updated by the live stream. */
import { useEffect, useRef, useState } from "react";

import type { Overview, SessionRow } from "../../api/shapes";
import { useLive } from "../../api/use-live";

export interface Now {
  working: SessionRow[];
  waiting: SessionRow[];
  failed: SessionRow[];
}

export const NOTHING_NEW: ReadonlyMap<string, SessionRow> = new Map();

const DAY = 86_400_000;

/** Current sessions by state, newest first; waiting or interrupted for more than 24 hours is not current. */
export function nowOf(overview: Now & Pick<Overview, "at">, news: ReadonlyMap<string, SessionRow>): Now {
  const rows = new Map<string, SessionRow>();
  for (const row of [...overview.working, ...overview.waiting, ...overview.failed]) rows.set(row.key, row);
  for (const row of news.values()) {
    const known = rows.get(row.key);
    if (!known || (row.last_at ?? "") >= (known.last_at ?? "")) rows.set(row.key, row);
  }
  const since = Date.parse(overview.at) - DAY;
  const all = [...rows.values()].toSorted((one, other) => ((one.last_at ?? "") < (other.last_at ?? "") ? 1 : -1));
  const recent = all.filter((row) => row.last_at !== null && Date.parse(row.last_at) >= since);
  return {
    working: all.filter((row) => row.state === "working"),
    waiting: recent.filter((row) => row.state === "waiting"),
    failed: recent.filter((row) => row.state === "interrupted"),
  };
}

/** Keeps the order of rows: working agents would change it with every event. */
export function inPlace(before: readonly string[], rows: readonly SessionRow[]): SessionRow[] {
  const byKey = new Map(rows.map((row) => [row.key, row]));
  const kept = before.flatMap((key) => byKey.get(key) ?? []);
  const known = new Set(before);
  return [...rows.filter((row) => !known.has(row.key)), ...kept];
}

/** The sessions of the last answer, updated by the live stream. */
export function useCurrent(overview: Overview): Now {
  const [news, setNews] = useState(NOTHING_NEW);
  const answer = useRef(overview);
  useEffect(() => {
    if (answer.current !== overview) setNews(NOTHING_NEW);
    answer.current = overview;
  }, [overview]);
  useLive((told) => setNews((known) => new Map([...known, ...told.rows.map((row) => [row.key, row] as const)])));
  return nowOf(overview, news);
}
