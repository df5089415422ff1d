/** Which spans are shown, in reading order, and how one gets from one to another. */
import { pathRows } from "./flame";
import { countsAsFailure } from "./roll-up";
import type { SpanTable } from "./span-table";

export interface Filter {
  /** Only what failed. */
  errors: boolean;
  /** Only calls of this tool; "" for all. */
  tool: string;
  /** Only what is in the spans of this path of names. */
  path?: readonly string[];
}

export function filters(filter: Filter): boolean {
  return filter.errors || filter.tool !== "" || (filter.path?.length ?? 0) > 0;
}

function fits(table: SpanTable, row: number, filter: Filter): boolean {
  if (filter.errors && table.statusOf(row) !== "error") return false;
  return filter.tool === "" || table.toolOf(row) === filter.tool;
}

/** The rows to show: without collapsed ones, or with a filter the matches and their ancestors. */
export function shownRows(table: SpanTable, filter: Filter, closed: (row: number) => boolean): Int32Array {
  return filters(filter) ? filteredRows(table, filter) : openRows(table, closed);
}

function openRows(table: SpanTable, closed: (row: number) => boolean): Int32Array {
  const { order } = table;
  const found = new Int32Array(order.length);
  let count = 0;
  for (let at = 0; at < order.length; ) {
    const row = order.rows[at] ?? 0;
    found[count] = row;
    count += 1;
    at = order.opens(row) && closed(row) ? (order.last[row] ?? at + 1) : at + 1;
  }
  return found.slice(0, count);
}

function filteredRows(table: SpanTable, filter: Filter): Int32Array {
  const { order } = table;
  const kept = new Uint8Array(table.length);
  const within = filter.path && filter.path.length > 0 ? pathRows(table, filter.path) : null;
  for (let at = 0; at < order.length; at += 1) {
    const row = order.rows[at] ?? 0;
    if (!fits(table, row, filter) || within?.[row] === 0) continue;
    kept[row] = 1;
    for (const up of order.ancestors(row)) {
      if (kept[up]) break;
      kept[up] = 1;
    }
  }
  return order.rows.subarray(0, order.length).filter((row) => kept[row] === 1);
}

/** The tools of a session and how often each was called, the most called first. */
export function toolCounts(table: SpanTable): [string, number][] {
  const counts = new Map<string, number>();
  for (let row = 0; row < table.length; row += 1) {
    const tool = table.toolOf(row);
    if (tool !== "") counts.set(tool, (counts.get(tool) ?? 0) + 1);
  }
  return [...counts].sort(([a, many], [b, few]) => few - many || a.localeCompare(b));
}

export type Landmark = "error" | "tool" | "turn";

const IS: Record<Landmark, (table: SpanTable, row: number) => boolean> = {
  error: countsAsFailure,
  tool: (table, row) => table.kindOf(row) === "tool",
  turn: (table, row) => table.kindOf(row) === "turn",
};

/** The next or previous span of a kind in reading order; -1 if there is none. Row -1 is before all. */
export function landmark(table: SpanTable, row: number, what: Landmark, direction: 1 | -1): number {
  const { order } = table;
  const start = row >= 0 ? (order.position[row] ?? 0) : direction > 0 ? -1 : order.length;
  for (let at = start + direction; at >= 0 && at < order.length; at += direction) {
    const found = order.rows[at] ?? -1;
    if (IS[what](table, found)) return found;
  }
  return -1;
}

/** The index of a span in the shown rows; if it is hidden, that of its nearest ancestor; -1 if there is none. */
export function indexOf(table: SpanTable, rows: Int32Array, row: number): number {
  if (row < 0) return -1;
  const { position } = table.order;
  // Shown rows are in reading order, so their places only grow.
  let low = 0;
  let high = rows.length - 1;
  const wanted = position[row] ?? 0;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const at = position[rows[middle] ?? 0] ?? 0;
    if (at === wanted) return middle;
    if (at < wanted) low = middle + 1;
    else high = middle - 1;
  }
  for (const up of table.order.ancestors(row)) {
    const found = high >= 0 ? indexOf(table, rows, up) : -1;
    if (found >= 0) return found;
  }
  return -1;
}

/**
 * The time of the rows from one index to another. What goes on below them counts with its beginning only: a turn of
 * hours whose first calls are in view must not make these a pixel wide.
 */
export function extentInView(table: SpanTable, rows: Int32Array, first: number, last: number, now: number): [number, number] | null {
  const { position, last: after } = table.order;
  let from = Number.POSITIVE_INFINITY;
  let to = Number.NEGATIVE_INFINITY;
  for (let index = Math.max(first, 0); index <= last && index < rows.length; index += 1) {
    const row = rows[index] ?? 0;
    const start = table.start[row] ?? 0;
    const following = rows[index + 1];
    const folded = following === undefined || (position[following] ?? 0) >= (after[row] ?? 0);
    const below = rows[last + 1];
    const ends = folded || below === undefined || (position[below] ?? 0) >= (after[row] ?? 0);
    from = Math.min(from, start);
    to = Math.max(to, ends ? table.endOf(row, now) : start);
  }
  return Number.isFinite(from) ? [from, Math.max(to, from + 1)] : null;
}

/** The first and the last time of a session; at least a part of a second. */
export function extent(table: SpanTable, now: number): [number, number] {
  let from = Number.POSITIVE_INFINITY;
  let to = Number.NEGATIVE_INFINITY;
  for (let row = 0; row < table.length; row += 1) {
    from = Math.min(from, table.start[row] ?? from);
    to = Math.max(to, table.endOf(row, now));
  }
  if (!Number.isFinite(from)) return [0, 1000];
  return [from, Math.max(to, from + 1)];
}
