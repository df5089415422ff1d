import { describe, expect, it } from "vitest";

import { extent, shownRows } from "../model/rows";
import { SpanTable } from "../model/span-table";
import { randoms, session, timeline } from "../model/timelines";
import { appearanceOf, appeared, offsetOf, passed, running, stepped, timeOf } from "./appearance";

const ALL = { errors: false, tool: "" };
const SEEDS = Array.from({ length: 20 }, (_, seed) => seed + 1);

function tableOf(spans: Parameters<typeof timeline>[0]): SpanTable {
  const table = new SpanTable();
  table.merge(timeline(spans));
  return table;
}

describe("a replay", () => {
  it("has shown everything at the end, and the first turn at the beginning", () => {
    for (const seed of SEEDS) {
      const table = tableOf(session(300, seed).map((span, at) => (at % 17 === 0 ? { ...span, end: null, status: "open" } : span)));
      const rows = shownRows(table, ALL, (row) => row % 11 === 0);
      const appearance = appearanceOf(table);
      const [from, to] = extent(table, 0);
      expect(appeared(appearance, rows, to)).toEqual(rows);
      expect(appeared(appearance, rows, from)).toContain(rows[0]);
      expect(passed(appearance, to)).toBe(appearance.moments.length);
    }
  });

  it("keeps the order, shows more with time, and nothing before what it is in", () => {
    for (const seed of SEEDS) {
      const table = tableOf(session(300, seed));
      const random = randoms(seed);
      const rows = shownRows(table, ALL, () => false);
      const appearance = appearanceOf(table);
      const [from, to] = extent(table, 0);
      const times = Array.from({ length: 20 }, () => from + random() * (to - from)).toSorted((a, b) => a - b);
      let before = new Set<number>();
      for (const time of times) {
        const shown = appeared(appearance, rows, time);
        const kept = new Set(shown);
        expect(shown).toEqual(rows.filter((row) => kept.has(row)));
        expect([...before].every((row) => kept.has(row))).toBe(true);
        expect([...shown].every((row) => [...table.order.ancestors(row)].every((up) => kept.has(up)))).toBe(true);
        before = kept;
      }
    }
  });

  it("steps through all rows and back, also by the address", () => {
    for (const seed of SEEDS.slice(0, 6)) {
      const random = randoms(seed);
      const micros = () => 1.79e12 + Math.floor(random() * 3000) / 1000;
      // Times as logs have them: with microseconds, some of them next to each other.
      const table = tableOf(session(120, seed).map((span) => ({ ...span, start: span.start + micros(), end: (span.end ?? span.start) + micros() })));
      const [from] = extent(table, 0);
      const kept = (time: number) => timeOf(offsetOf(time, from), from);
      const rows = shownRows(table, ALL, () => false);
      const appearance = appearanceOf(table);
      const walk = (start: number, direction: 1 | -1): [number[], number] => {
        const counts: number[] = [];
        let time = start;
        for (let next: number | null = start; next !== null; next = stepped(appearance, time, direction)) {
          time = kept(next);
          counts.push(appeared(appearance, rows, time).length);
        }
        return [counts, time];
      };
      const [counts, last] = walk(from, 1);
      expect(counts.every((count, index) => index === 0 || count > (counts[index - 1] ?? 0))).toBe(true);
      expect(counts.at(-1)).toBe(rows.length);
      const [back] = walk(last, -1);
      expect(back.toReversed()).toEqual(counts);
    }
  });

  it("shows a result when it is there, and says what runs until then", () => {
    const table = tableOf([
      { id: "t", start: 0, end: 100 },
      { id: "s", parent: "t", kind: "step", start: 10, end: 90 },
      { id: "c", parent: "s", kind: "tool", name: "execute_tool Bash", start: 20, end: 60 },
      { id: "d", parent: "t", kind: "step", start: 90, end: 95 },
    ]);
    const appearance = appearanceOf(table);
    const ids = (time: number) => [...appeared(appearance, shownRows(table, ALL, () => false), time)].map((row) => table.ids[row]).join(" ");
    expect([0, 59, 60, 94, 95].map(ids)).toEqual(["t", "t", "t s c", "t s c", "t s c d"]);
    expect(running(table, 30, 3).map((row) => table.ids[row])).toEqual(["c", "s"]);
    expect(running(table, 97, 3)).toEqual([]);
  });

  it("takes thirty thousand spans", ({ annotate }) => {
    const table = tableOf(session(30_000));
    const rows = shownRows(table, ALL, () => false);
    const start = performance.now();
    const appearance = appearanceOf(table);
    const built = performance.now();
    const half = appeared(appearance, rows, appearance.moments[appearance.moments.length >> 1] ?? 0);
    const filtered = performance.now();
    void annotate(`built in ${(built - start).toFixed(1)} ms, filtered in ${(filtered - built).toFixed(1)} ms`);
    expect(half.length).toBeGreaterThan(10_000);
  });
});
