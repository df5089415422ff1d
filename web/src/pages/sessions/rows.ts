/**
 * The rows of the list: loaded pages, updated by the live stream.
 *
 * Values change in place at once. The order changes only while the user is not reading (see `steadied`): a row must not
 * move away under the pointer.
 */
import type { LiveSessions, SessionList, SessionRow } from "../../api/shapes";
import { allTokens } from "../../parts/bill";
import type { Filters, Outcome, SortBy, View } from "./filters";
import { passes } from "./filters";

/** A row of the stream, and up to which event it is. */
export interface News {
  row: SessionRow;
  cursor: number;
}

export type NewsByKey = ReadonlyMap<string, News>;

export const NO_NEWS: NewsByKey = new Map();

export function withNews(known: NewsByKey, told: LiveSessions): NewsByKey {
  if (told.rows.length === 0) return known;
  const next = new Map(known);
  for (const row of told.rows) next.set(row.key, { row, cursor: told.cursor });
  return next;
}

/** The rows of the pages, each once and as new as it is known; a row that moved while pages were turned comes twice. */
export function patched(pages: readonly SessionList[], news: NewsByKey): SessionRow[] {
  const rows = new Map<string, SessionRow>();
  for (const page of pages) {
    for (const row of page.items) {
      const told = news.get(row.key);
      if (!rows.has(row.key)) rows.set(row.key, told && told.cursor >= page.cursor ? told.row : row);
    }
  }
  return [...rows.values()];
}

/** All rows that the list shows, in its order. */
export function arranged(pages: readonly SessionList[], news: NewsByKey, view: View): SessionRow[] {
  const before = inOrder(view);
  const loaded = patched(pages, news);
  const keys = new Set(loaded.map((row) => row.key));
  const unread = pages.at(-1)?.next ? pages.at(-1)?.items.at(-1) : undefined;
  const fresh = [...news.values()]
    .map(({ row }) => row)
    // A row after all loaded rows comes with its page.
    .filter((row) => !keys.has(row.key) && (!unread || before(row, unread) < 0));
  return [...loaded, ...fresh].filter((row) => fits(row, view.filters, pages[0] ?? ANY_TIME)).toSorted(before);
}

export interface Steady {
  rows: SessionRow[];
  /** Rows that are not shown yet because the user is reading. */
  fresh: number;
}

/** The rows in the shown order; later pages come below, new sessions are pending. */
export function steadied(
  shown: readonly string[],
  all: readonly SessionRow[],
  loaded: readonly SessionRow[],
  news: NewsByKey,
): Steady {
  const known = new Map<string, SessionRow>();
  for (const { row } of news.values()) known.set(row.key, row);
  for (const row of loaded) known.set(row.key, row);
  const kept = shown.flatMap((key) => known.get(key) ?? []);
  const there = new Set(kept.map((row) => row.key));
  const paged = new Set(loaded.map((row) => row.key));
  const others = all.filter((row) => !there.has(row.key));
  const below = others.filter((row) => paged.has(row.key));
  return { rows: [...kept, ...below], fresh: others.length - below.length };
}

/** The cost that rows are compared by: of several currencies the largest amount, as the server does it. */
export function amount(row: SessionRow): number | null {
  const amounts = Object.values(row.bill.costs);
  return amounts.length > 0 ? Math.max(...amounts) : null;
}

const VALUES: Record<SortBy, (row: SessionRow) => number | null> = {
  last: (row) => moment(row.last_at),
  started: (row) => moment(row.started_at),
  duration: (row) => difference(moment(row.started_at), moment(row.last_at)),
  turns: (row) => row.turns,
  errors: (row) => row.errors,
  tokens: (row) => allTokens(row.bill),
  cost: amount,
  changes: ({ outcomes }) =>
    outcomes === null || outcomes.added === null || outcomes.removed === null ? null : outcomes.added + outcomes.removed,
  commits: ({ outcomes }) => outcomes?.commits ?? null,
};

function moment(iso: string | null): number | null {
  if (iso === null) return null;
  const millis = Date.parse(iso);
  // Dates count milliseconds; the server orders by microseconds.
  return Number.isNaN(millis) ? null : millis + Number(/\.\d{3}(\d{1,3})/.exec(iso)?.[1] ?? 0) / 1000;
}

function difference(start: number | null, end: number | null): number | null {
  return start === null || end === null ? null : end - start;
}

/** Compares as the server does: rows without a value last in either order, draws settled by the key. */
export function inOrder({ sort, order }: Pick<View, "sort" | "order">): (one: SessionRow, other: SessionRow) => number {
  const sign = order === "asc" ? 1 : -1;
  return (one, other) => {
    const [a, b] = [VALUES[sort](one), VALUES[sort](other)];
    const byKey = one.key < other.key ? -1 : Number(one.key > other.key);
    if (a === null || b === null) return Number(a === null) - Number(b === null) || byKey;
    return sign * (a - b) || byKey;
  };
}

/** The time that a list is of, as the server understood it: where a day begins is its setting, not the browser's. */
export type Period = Pick<SessionList, "since" | "until">;

const ANY_TIME: Period = { since: null, until: null };

/** Whether the list shows this row; for rows that the server did not choose. */
export function fits(row: SessionRow, filters: Filters, period: Period): boolean {
  const { agents, projects, states, models, q, minCost } = filters;
  return (
    (agents.length === 0 || agents.includes(row.agent)) &&
    isOne(filters.machines, row.machine) &&
    isOne(filters.persons, row.person) &&
    (projects.length === 0 || projects.includes(row.project ?? "")) &&
    (states.length === 0 || states.includes(row.state)) &&
    (models.length === 0 || row.models.some((model) => models.includes(model))) &&
    (!filters.errors || row.errors > 0) &&
    (!filters.commits || (row.outcomes?.commits ?? 0) > 0) &&
    filters.outcomes.every((outcome) => has(row, outcome)) &&
    (!filters.starred || row.marks.starred) &&
    filters.labels.every((label) => row.marks.labels.includes(label)) &&
    filters.scores.every((test) => passes(row.marks.scores, test)) &&
    (minCost === null || (amount(row) ?? -1) >= minCost) &&
    (q === "" || isNamed(row, q)) &&
    isWithin(row, moment(period.since), moment(period.until))
  );
}

function isOne(chosen: readonly string[], name: string | null): boolean {
  return chosen.length === 0 || chosen.includes(name ?? "");
}

function has({ outcomes }: SessionRow, outcome: Outcome): boolean {
  if (outcomes === null) return false;
  const { files, pull_requests, test_runs: tests, tests_failed: failed } = outcomes;
  return { files, pull_requests, tests, failed_tests: failed ?? 0 }[outcome] > 0;
}

function isNamed(row: SessionRow, q: string): boolean {
  const sought = q.toLowerCase();
  return [row.title, row.session_id, row.project].some((text) => (text ?? "").toLowerCase().includes(sought));
}

/** Active at some moment between the two. */
function isWithin(row: SessionRow, since: number | null, until: number | null): boolean {
  const [started, last] = [moment(row.started_at), moment(row.last_at)];
  return (since === null || (last !== null && last >= since)) && (until === null || (started !== null && started < until));
}
