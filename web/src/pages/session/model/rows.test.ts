import { describe, expect, it } from "vitest";

import { extentInView, indexOf, landmark, shownRows, toolCounts } from "./rows";
import { SpanTable } from "./span-table";
import { session, timeline } from "./timelines";

const ALL = { errors: false, tool: "" };

function table(): SpanTable {
  const made = new SpanTable();
  made.merge(
    timeline([
      { id: "t1", start: 0 },
      { id: "s1", parent: "t1", kind: "step", start: 1 },
      { id: "c1", parent: "s1", kind: "tool", name: "execute_tool Bash", start: 2, status: "error" },
      { id: "c2", parent: "s1", kind: "tool", name: "execute_tool Read", start: 3 },
      { id: "t2", start: 10 },
      { id: "s2", parent: "t2", kind: "step", start: 11 },
      { id: "c3", parent: "s2", kind: "tool", name: "execute_tool Bash", start: 12 },
    ]),
  );
  return made;
}

function ids(spans: SpanTable, rows: Int32Array): string {
  return [...rows].map((row) => spans.ids[row]).join(" ");
}

describe("rows", () => {
  it("leave out everything inside what is closed, and nothing else", () => {
    const spans = table();
    const closed = (...names: string[]) => ids(spans, shownRows(spans, ALL, (row) => names.includes(spans.ids[row] ?? "")));
    expect(closed()).toBe("t1 s1 c1 c2 t2 s2 c3");
    expect(closed("t1")).toBe("t1 t2 s2 c3");
    expect(closed("s1", "c3")).toBe("t1 s1 t2 s2 c3");
  });

  it("show what fits a filter with the spans around it, even where these are closed", () => {
    const spans = table();
    const shown = (filter: Partial<typeof ALL>) => ids(spans, shownRows(spans, { ...ALL, ...filter }, () => true));
    expect(shown({ errors: true })).toBe("t1 s1 c1");
    expect(shown({ tool: "Bash" })).toBe("t1 s1 c1 t2 s2 c3");
    expect(shown({ tool: "Bash", errors: true })).toBe("t1 s1 c1");
    expect(shown({ tool: "Gone" })).toBe("");
  });

  it("find every shown span at its place, and a hidden one at what contains it", () => {
    const spans = new SpanTable();
    spans.merge(timeline(session(400, 9)));
    const rows = shownRows(spans, ALL, (row) => row % 7 === 0);
    const place = new Map([...rows].map((row, index) => [row, index]));
    for (let row = 0; row < spans.length; row += 1) {
      const around = [row, ...spans.order.ancestors(row)].find((up) => place.has(up));
      expect(indexOf(spans, rows, row)).toBe(around === undefined ? -1 : place.get(around));
    }
    expect(indexOf(spans, rows, -1)).toBe(-1);
  });

  it("lead from error to error, tool to tool and turn to turn in both directions", () => {
    const spans = table();
    const go = (id: string | null, what: Parameters<typeof landmark>[2], direction: 1 | -1) =>
      spans.ids[landmark(spans, spans.rowOf(id), what, direction)];
    expect(go(null, "error", 1)).toBe("c1");
    expect(go("c1", "error", 1)).toBeUndefined();
    expect(go("c1", "tool", 1)).toBe("c2");
    expect(go("c3", "tool", -1)).toBe("c2");
    expect(go("c2", "turn", 1)).toBe("t2");
    expect(go("c2", "turn", -1)).toBe("t1");
    expect(go(null, "turn", -1)).toBe("t2");
  });

  it("in view have the time of what is seen of them: of what goes on below, the beginning", () => {
    const spans = new SpanTable();
    spans.merge(
      timeline([
        { id: "t1", start: 0, end: 1000 },
        { id: "s1", parent: "t1", kind: "step", start: 10, end: 40 },
        { id: "c1", parent: "s1", kind: "tool", start: 20, end: 30 },
        { id: "s2", parent: "t1", kind: "step", start: 500, end: 900 },
      ]),
    );
    const all = shownRows(spans, ALL, () => false);
    expect(extentInView(spans, all, 0, 3, 0)).toEqual([0, 1000]);
    expect(extentInView(spans, all, 0, 2, 0)).toEqual([0, 40]);
    expect(extentInView(spans, all, 0, 1, 0)).toEqual([0, 10]);
    expect(extentInView(spans, all, 3, 3, 0)).toEqual([500, 900]);
    expect(extentInView(spans, shownRows(spans, ALL, () => true), 0, 0, 0)).toEqual([0, 1000]);
    expect(extentInView(spans, all, 0, -1, 0)).toBeNull();
  });

  it("count the calls of each tool", () => {
    expect(toolCounts(table())).toEqual([
      ["Bash", 2],
      ["Read", 1],
    ]);
  });
});
