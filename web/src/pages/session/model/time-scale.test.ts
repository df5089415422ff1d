import { describe, expect, it } from "vitest";

import { extent } from "./rows";
import { SpanTable } from "./span-table";
import { ticksOf, panned, zoomed } from "./ticks";
import { scaleOf } from "./time-scale";
import { randoms, session, timeline } from "./timelines";

function made(count: number, seed: number): SpanTable {
  const table = new SpanTable();
  table.merge(timeline(session(count, seed)));
  return table;
}

describe("TimeScale", () => {
  it("leads from a moment to a length and back, and later moments are never nearer", () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      const table = made(150, seed);
      const range = extent(table, 0);
      for (const cut of [true, false]) {
        const scale = scaleOf(table, range, 0, cut);
        const random = randoms(seed);
        let before = Number.NEGATIVE_INFINITY;
        const moments = Array.from({ length: 60 }, () => range[0] + random() * (range[1] - range[0])).sort((a, b) => a - b);
        for (const moment of moments) {
          const length = scale.lengthAt(moment);
          expect(length).toBeGreaterThanOrEqual(before);
          expect(scale.timeAt(length)).toBeCloseTo(moment, 3);
          before = length;
        }
        expect(scale.lengthAt(range[0])).toBe(0);
        expect(scale.lengthAt(range[1])).toBeCloseTo(scale.length, 6);
      }
    }
  });

  it("cuts a pause short and leaves every activity as long as it was", () => {
    const table = new SpanTable();
    table.merge(
      timeline([
        { id: "t1", start: 0, end: 3_600_000 },
        { id: "s1", parent: "t1", kind: "step", start: 0, end: 5000 },
        { id: "t2", start: 3_600_000, end: 3_602_000 },
        { id: "s2", parent: "t2", kind: "step", start: 3_600_000, end: 3_602_000 },
      ]),
    );
    const scale = scaleOf(table, extent(table, 0), 0, true);
    expect(scale.pauses).toEqual([{ from: 5000, to: 3_600_000 }]);
    expect(scale.length).toBe(5000 + 1000 + 2000);
    expect(scale.lengthAt(5000) - scale.lengthAt(0)).toBe(5000);
    expect(scaleOf(table, extent(table, 0), 0, false).length).toBe(3_602_000);
  });

  it("has marks inside its window, in order, apart from each other, and none in a pause", () => {
    const table = made(300, 4);
    const range = extent(table, 0);
    const scale = scaleOf(table, range, 0, true);
    const ticks = ticksOf(scale, range[0], range[1], 8);
    expect(ticks.length).toBeGreaterThan(1);
    ticks.forEach((tick, index) => {
      expect(tick.at).toBeGreaterThanOrEqual(0);
      expect(tick.at).toBeLessThanOrEqual(1);
      expect(tick.at - (ticks[index - 1]?.at ?? -1)).toBeGreaterThan(0.1);
      expect(scale.pauses.some((pause) => tick.time > pause.from && tick.time < pause.to)).toBe(false);
    });
  });

  it("zooms around a moment that stays where it is, and never leaves the session", () => {
    const table = made(200, 6);
    const range = extent(table, 0);
    const scale = scaleOf(table, range, 0, true);
    const around = scale.timeAt(scale.length * 0.4);
    const [from, to] = zoomed(scale, range, around, 0.5);
    const share = (time: number) => (scale.lengthAt(time) - scale.lengthAt(from)) / (scale.lengthAt(to) - scale.lengthAt(from));
    expect(share(around)).toBeCloseTo(0.4, 5);
    expect(zoomed(scale, [from, to], around, 10).map(Math.round)).toEqual(range.map(Math.round));
    const [moved, end] = panned(scale, [from, to], 99);
    expect(end).toBeCloseTo(range[1], 3);
    expect(scale.lengthAt(end) - scale.lengthAt(moved)).toBeCloseTo(scale.lengthAt(to) - scale.lengthAt(from), 3);
  });
});
