import { describe, expect, it } from "vitest";

import type { Box, Flame, Group, Measure } from "./flame";
import { boxesOf, flameOf, groupAt, measuresOf, pathOf, pathRows, valueOf } from "./flame";
import { RollUp } from "./roll-up";
import { shownRows } from "./rows";
import { SpanTable } from "./span-table";
import { session, timeline } from "./timelines";

function tableOf(spans: Parameters<typeof timeline>[0]): SpanTable {
  const table = new SpanTable();
  table.merge(timeline(spans));
  return table;
}

function tops(flame: Flame): Group[] {
  return flame.tops.map((index) => flame.groups[index] as Group);
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
const SEEDS = Array.from({ length: 25 }, (_, seed) => seed + 1);

describe("flameOf", () => {
  it("puts every span into one group, and the figures of all groups are those of the spans", () => {
    for (const seed of SEEDS) {
      const table = tableOf(session(1 + seed * 23, seed));
      const flame = flameOf(table, 0);
      expect(sum(flame.groups.map((group) => group.count))).toBe(table.length);
      expect(flame.groupOf.every((group) => group >= 0)).toBe(true);
      const rows = Array.from({ length: table.length }, (_, row) => row);
      flame.groups.forEach((group, index) => {
        const own = rows.filter((row) => flame.groupOf[row] === index);
        expect(own.length).toBe(group.count);
        expect(group.time).toBeCloseTo(sum(own.map((row) => table.endOf(row, 0) - (table.start[row] ?? 0))), 3);
        expect(group.errors).toBe(own.filter((row) => table.statusOf(row) === "error").length);
        expect(own).toContain(group.longest);
      });
      const sums = new RollUp(table);
      sums.update(0);
      const all = sums.all();
      expect(sum(tops(flame).map((group) => group.tokens))).toBe(all.input + all.output);
      expect(sum(tops(flame).map((group) => group.unpriced))).toBe(all.unpriced);
      expect(sum(tops(flame).map((group) => group.costs["USD"] ?? 0))).toBeCloseTo(all.costs["USD"] ?? 0, 6);
      expect(sum(flame.groups.map((group) => group.errors))).toBe(all.errors);
    }
  });

  it("names a group by the path of its spans, and finds it by that path", () => {
    const table = tableOf(session(300, 4));
    const flame = flameOf(table, 0);
    flame.groups.forEach((group, index) => {
      expect(groupAt(flame, pathOf(flame, index))).toBe(index);
      expect(group.parent).toBeLessThan(index);
    });
    expect(groupAt(flame, ["nothing"])).toBe(-1);
    expect(groupAt(flame, ["turn"])).toBe(0);
    expect(tops(flame).map((group) => group.key)).toEqual(["turn"]);
  });

  it("measures open spans until now, and costs in each currency by itself", () => {
    const flame = flameOf(
      tableOf([
        { id: "t", start: 0, end: null, status: "open" },
        { id: "a", parent: "t", kind: "step", start: 1, end: 3, input: 5, output: 2, cost: 1, currency: "USD" },
        { id: "b", parent: "t", kind: "step", start: 3, end: 4, input: 1, output: 1, cost: 9, currency: "CNY" },
        { id: "c", parent: "t", kind: "step", start: 4, end: 5, input: 7, output: 7, counted: false },
      ]),
      100,
    );
    expect(flame.groups.map((group) => [group.key, group.time, group.tokens])).toEqual([
      ["turn", 100, 9],
      ["step m", 4, 9],
    ]);
    expect(measuresOf(flame)).toEqual(["time", "tokens", "cost CNY", "cost USD"]);
    expect(valueOf(flame.groups[0] as Group, "cost CNY")).toBe(9);
  });

  it("leads to the spans behind a group: all of them, what is in them, and what they are in", () => {
    for (const seed of SEEDS.slice(0, 8)) {
      const table = tableOf(session(250, seed));
      const flame = flameOf(table, 0);
      flame.groups.forEach((_, index) => {
        const path = pathOf(flame, index);
        const within = pathRows(table, path);
        const shown = new Set(shownRows(table, { errors: false, tool: "", path }, () => true));
        for (let row = 0; row < table.length; row += 1) {
          const around = [row, ...table.order.ancestors(row)];
          const inside = around.some((up) => flame.groupOf[up] === index);
          expect(within[row]).toBe(inside ? 1 : 0);
          expect(!inside || around.every((up) => shown.has(up))).toBe(true);
        }
      });
    }
  });

  it("draws groups beside each other inside what they are in, and loses no width", () => {
    for (const seed of SEEDS) {
      const flame = flameOf(tableOf(session(600, seed)), 0);
      for (const measure of measuresOf(flame)) expect(flawsOf(flame, measure, -1)).toEqual([]);
      expect(flawsOf(flame, "time", groupAt(flame, ["turn", "step m"]))).toEqual([]);
    }
  });

  it("draws all groups at one scale: none is narrower than its time", () => {
    for (const seed of SEEDS) {
      const flame = flameOf(tableOf(session(600, seed)), 0);
      const whole = sum(flame.tops.map((top) => flame.groups[top]?.reach ?? 0));
      const narrow = boxesOf(flame, "time", -1).filter(({ group, width }) => width < (flame.groups[group]?.time ?? 0) / whole - 1e-9);
      expect(narrow).toEqual([]);
    }
  });

  it("takes thirty thousand spans", ({ annotate }) => {
    const table = tableOf(session(30_000));
    const start = performance.now();
    const flame = flameOf(table, 0);
    const grouped = performance.now();
    const boxes = boxesOf(flame, "time", -1);
    const drawn = performance.now();
    pathRows(table, ["turn", "step m", "tool Bash"]);
    const found = performance.now();
    void annotate(
      `grouped in ${(grouped - start).toFixed(1)} ms, laid out in ${(drawn - grouped).toFixed(1)} ms, narrowed in ${(found - drawn).toFixed(1)} ms`,
    );
    expect(boxes.length).toBeGreaterThan(4);
    expect(sum(flame.groups.map((group) => group.count))).toBe(30_000);
  });
});

/** Boxes that are outside of the width, over another one, or outside of what they are in. */
function flawsOf(flame: Flame, measure: Measure, narrowed: number): unknown[] {
  const boxes = boxesOf(flame, measure, narrowed);
  const end = (box: Box) => box.left + box.width;
  const outside = (box: Box, of: Pick<Box, "left" | "width">) => box.left < of.left - 1e-9 || end(box) > of.left + of.width + 1e-9;
  const first = sum(boxes.filter((box) => box.level === 0).map((box) => box.width));
  return [
    ...(Math.abs(first - 1) > 1e-6 ? [`the first level is ${first} wide`] : []),
    ...boxes.filter((box) => outside(box, { left: 0, width: 1 })),
    ...boxes.filter((box) => boxes.some((other) => other !== box && other.level === box.level && other.left >= box.left && end(box) > other.left + 1e-9)),
    ...boxes.filter((box) => {
      const parent = boxes.find((other) => other.group >= 0 && other.group === flame.groups[box.group]?.parent);
      return parent && outside(box, parent);
    }),
  ];
}
