/** The calls of a session by tool: how many, how many failed, and how long they took. */
import { NONE } from "./span-table";
import type { SpanTable } from "./span-table";

export interface ToolStats {
  tool: string;
  /** Rows of the calls, in reading order. */
  calls: number[];
  failed: number;
  /** Milliseconds of all calls whose end is known. */
  time: number;
  median: number;
  longest: number;
}

/** The tools of a session, the most called first. */
export function toolStats(table: SpanTable): ToolStats[] {
  const calls = new Map<string, number[]>();
  for (let at = 0; at < table.order.length; at += 1) {
    const row = table.order.rows[at] ?? 0;
    const tool = table.toolOf(row);
    if (tool === "") continue;
    const known = calls.get(tool);
    if (known) known.push(row);
    else calls.set(tool, [row]);
  }
  const all = [...calls].map(([tool, rows]) => statsOf(table, tool, rows));
  return all.sort((a, b) => b.calls.length - a.calls.length || a.tool.localeCompare(b.tool));
}

function statsOf(table: SpanTable, tool: string, calls: number[]): ToolStats {
  const lengths = calls.map((row) => durationOf(table, row)).filter((length) => !Number.isNaN(length));
  const sorted = Float64Array.from(lengths).sort();
  return {
    tool,
    calls,
    failed: calls.filter((row) => table.statusOf(row) === "error").length,
    time: lengths.reduce((sum, length) => sum + length, 0),
    median: middle(sorted),
    longest: sorted.at(-1) ?? NONE,
  };
}

/** How long a call took; NaN where its end is not known. */
export function durationOf(table: SpanTable, row: number): number {
  return (table.end[row] ?? NONE) - (table.start[row] ?? 0);
}

function middle(sorted: Float64Array): number {
  const half = sorted.length >> 1;
  const upper = sorted[half] ?? NONE;
  return sorted.length % 2 === 1 ? upper : ((sorted[half - 1] ?? NONE) + upper) / 2;
}
