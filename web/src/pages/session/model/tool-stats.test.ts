/** The calls of a session by tool, its outline, and failures that count once. */
import { describe, expect, test } from "vitest";

import type { Timeline } from "../../../api/shapes";
import { outlineErrors, outlineTurns, turnAround } from "./outline";
import { RollUp } from "./roll-up";
import { SpanTable } from "./span-table";
import { durationOf, toolStats } from "./tool-stats";

type Row = [id: string, parent: string | null, kind: Timeline["kind"][number], name: string, start: number, end: number | null, status?: Timeline["status"][number]];

function timeline(rows: Row[]): Timeline {
  const of = <T>(value: T) => rows.map(() => value);
  return {
    session: "s", cursor: 1, complete: true, next: null, streams: [""],
    span_id: rows.map((row) => row[0]), parent_id: rows.map((row) => row[1]), kind: rows.map((row) => row[2]), name: rows.map((row) => row[3]),
    start: rows.map((row) => row[4] * 1000), end: rows.map((row) => (row[5] === null ? null : row[5] * 1000)), status: rows.map((row) => row[6] ?? "ok"),
    model: of(null), stream: of(0), turn: of(0), step: of(0), input: of(null), cached: of(null), output: of(null), cost: of(null), currency: of(null),
    counted: of(true), estimated: of(false),
  };
}

const ROWS: Row[] = [
  ["t1", null, "turn", "invoke_agent x", 0, 90, "error"],
  ["s1", "t1", "step", "chat", 1, 80, "error"],
  ["a", "s1", "tool", "execute_tool Bash", 2, 12],
  ["b", "s1", "tool", "execute_tool Bash", 20, 50, "error"],
  ["c", "s1", "tool", "execute_tool Read", 55, null, "open"],
  ["t2", null, "turn", "invoke_agent x", 100, 110, "error"],
  ["s2", "t2", "step", "chat", 101, 109],
];

function filled(rows: Row[]): SpanTable {
  const table = new SpanTable();
  table.merge(timeline(rows));
  return table;
}

describe("tools", () => {
  test("Calls, failures and time by tool, the most called first.", () => {
    const table = filled(ROWS);
    const [bash, read] = toolStats(table);
    expect([bash?.tool, bash?.calls.length, bash?.failed, bash?.time, bash?.median, bash?.longest]).toEqual(["Bash", 2, 1, 40, 20, 30]);
    expect([read?.tool, read?.calls.length, read?.time]).toEqual(["Read", 1, 0]);
    expect(read?.median).toBeNaN();
    expect(durationOf(table, table.rowOf("a"))).toBe(10);
  });

  test("A session without tools has none.", () => {
    expect(toolStats(filled([["t", null, "turn", "x", 0, 1]]))).toEqual([]);
  });
});

describe("failures", () => {
  test("A turn that fails with its model call is one failure; one that fails by itself is one, too.", () => {
    const table = filled(ROWS);
    const sums = new RollUp(table);
    sums.update(0);
    expect(sums.all().errors).toBe(3);
    expect(sums.of(table.rowOf("t1")).errors).toBe(2);
    expect(outlineErrors(table, 10).map((row) => table.ids[row])).toEqual(["s1", "b", "t2"]);
    expect(outlineErrors(table, 1)).toHaveLength(1);
  });

  test("A model call that fails later makes the failure of its turn its own.", () => {
    const table = filled(ROWS);
    const sums = new RollUp(table);
    sums.update(0);
    const { from } = table.merge(timeline([["s2", "t2", "step", "chat", 101, 109, "error"]]));
    sums.update(from);
    expect(sums.all().errors).toBe(3);
  });
});

test("The outline has the turns, and knows in which one a row is.", () => {
  const table = filled(ROWS);
  expect(outlineTurns(table).map((row) => table.ids[row])).toEqual(["t1", "t2"]);
  expect(table.ids[turnAround(table, table.rowOf("b"))]).toBe("t1");
  expect(turnAround(table, -1)).toBe(-1);
});
