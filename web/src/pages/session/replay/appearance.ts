/** When each row of a session appeared: what a replay has shown at a moment. */
import type { SpanTable } from "../model/span-table";

export interface Appearance {
  /** By row, in milliseconds since 1970: never before what it is in. */
  at: Float64Array;
  /** The moments at which something appears, in order, each once. */
  moments: Float64Array;
}

/** A turn appears with its prompt, an answer and a result when they are there, and each of them with the first thing inside. */
export function appearanceOf(table: SpanTable): Appearance {
  const { order } = table;
  const at = new Float64Array(table.length);
  for (let row = 0; row < table.length; row += 1) {
    const [start, end] = [table.start[row] ?? 0, table.end[row] ?? Number.NaN];
    at[row] = table.kindOf(row) === "turn" || Number.isNaN(end) ? start : Math.max(start, end);
  }
  // From the inside out: descendants stand after what they are in.
  for (let place = order.length - 1; place >= 0; place -= 1) {
    const row = order.rows[place] ?? 0;
    const parent = order.parent[row] ?? -1;
    if (parent >= 0) at[parent] = Math.min(at[parent] ?? 0, at[row] ?? 0);
  }
  return { at, moments: Float64Array.from(new Set(at)).sort() };
}

/** How many moments there were up to a time. */
export function passed({ moments }: Appearance, time: number): number {
  let low = 0;
  let high = moments.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((moments[middle] ?? 0) <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Those of the rows that have appeared, in the same order. */
export function appeared({ at }: Appearance, rows: Int32Array, time: number): Int32Array {
  return rows.filter((row) => (at[row] ?? 0) <= time);
}

/** The moment of the next row, or of the one before the last that has appeared; null at both ends. */
export function stepped(appearance: Appearance, time: number, direction: 1 | -1): number | null {
  const count = passed(appearance, time);
  return appearance.moments[direction > 0 ? count : count - 2] ?? null;
}

/** A time as the address has it: milliseconds since the beginning, exact to the microseconds of logs. */
export function offsetOf(time: number, from: number): number {
  return Math.round((time - from) * 1000) / 1000;
}

/** The time of an offset: half a microsecond later, because milliseconds since 1970 have no more digits. */
export function timeOf(offset: number, from: number): number {
  return from + offset + 0.0005;
}

/** The rows of what ran at a time, the latest first: model calls, tools and other spans. */
export function running(table: SpanTable, time: number, most: number): number[] {
  const found: number[] = [];
  for (let row = table.length - 1; row >= 0 && found.length < most; row -= 1) {
    if (table.kindOf(row) !== "turn" && (table.start[row] ?? 0) <= time && time < (table.end[row] ?? 0)) found.push(row);
  }
  return found;
}
