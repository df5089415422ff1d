/** The outline of a session: its turns and its failures. */
import { countsAsFailure } from "./roll-up";
import type { SpanTable } from "./span-table";

/** Rows of the turns of the session itself; subagents are below the calls that started them. */
export function outlineTurns(table: SpanTable): number[] {
  const found: number[] = [];
  for (let at = 0; at < table.order.length; at += 1) {
    const row = table.order.rows[at] ?? 0;
    if (table.kindOf(row) === "turn" && !table.nested(row) && !table.inner(row)) found.push(row);
  }
  return found;
}

/** Rows of what failed, up to a number. */
export function outlineErrors(table: SpanTable, most: number): number[] {
  const found: number[] = [];
  for (let at = 0; at < table.order.length && found.length < most; at += 1) {
    const row = table.order.rows[at] ?? 0;
    if (countsAsFailure(table, row)) found.push(row);
  }
  return found;
}

/** The turn of the outline that a row is in; -1 for none. */
export function turnAround(table: SpanTable, row: number): number {
  if (row < 0) return -1;
  let found = table.kindOf(row) === "turn" && !table.nested(row) ? row : -1;
  for (const up of table.order.ancestors(row)) if (table.kindOf(up) === "turn" && !table.nested(up)) found = up;
  return found;
}
