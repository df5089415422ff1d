import { describe, expect, it } from "vitest";

import { RollUp } from "./roll-up";
import { SpanTable } from "./span-table";
import { randoms, session, timeline } from "./timelines";

function whole(spans: Parameters<typeof timeline>[0]): SpanTable {
  const table = new SpanTable();
  table.merge(timeline(spans));
  return table;
}

/** Ids in reading order with their depth. */
function read(table: SpanTable): string[] {
  return [...table.order.rows.subarray(0, table.length)].map((row) => `${table.order.depth[row]} ${table.ids[row]}`);
}

describe("SpanTable", () => {
  it("puts every span right after what contains it or a sibling's contents, siblings by their start", () => {
    const table = whole([
      { id: "t1", start: 0 },
      { id: "t2", start: 50 },
      { id: "s2", parent: "t1", kind: "step", start: 20 },
      { id: "s1", parent: "t1", kind: "step", start: 10 },
      { id: "c1", parent: "s1", kind: "tool", start: 30 },
      { id: "n1", parent: "c1", start: 31, stream: "sub" },
    ]);
    expect(read(table)).toEqual(["0 t1", "1 s1", "2 c1", "3 n1", "1 s2", "0 t2"]);
    expect(table.order.last[table.rowOf("t1")]).toBe(5);
    expect(table.nested(table.rowOf("n1"))).toBe(true);
    expect(table.nested(table.rowOf("c1"))).toBe(false);
  });

  it("names turns of recorded agents by their number alone, and spans of other programs as these do", () => {
    const table = whole([
      { id: "t1", start: 0, name: "invoke_agent codex" },
      { id: "t2", start: 10, name: "POST /chat" },
      { id: "a1", parent: "t2", start: 11, name: "invoke_agent shopper" },
      { id: "h1", parent: "a1", kind: "span", start: 12, name: "GET /stock" },
      { id: "n1", parent: "t1", start: 1, name: "invoke_agent codex", stream: "sub" },
    ]);
    const titles = table.ids.map((id) => [id, table.titleOf(table.rowOf(id)), table.inner(table.rowOf(id))]);
    expect(titles).toEqual([
      ["t1", "", false],
      ["t2", "POST /chat", false],
      ["a1", "shopper", true],
      ["h1", "GET /stock", false],
      ["n1", "", false],
    ]);
  });

  it("gives the same order, depths, subtrees and sums from pieces in any cut as from the whole", () => {
    for (let seed = 1; seed <= 30; seed += 1) {
      const random = randoms(seed * 77);
      const spans = session(200, seed);
      const expected = whole(spans);
      const table = new SpanTable();
      const sums = new RollUp(table);
      for (let at = 0; at < spans.length; ) {
        const size = 1 + Math.floor(random() * 40);
        // A piece repeats some known spans, as the server sends an open span repeatedly.
        const piece = spans.slice(Math.max(at - Math.floor(random() * 5), 0), at + size);
        sums.update(table.merge(timeline(piece, at, false)).from);
        at += size;
      }
      expect(read(table)).toEqual(read(expected));
      const fresh = new RollUp(expected);
      fresh.update(0);
      for (const id of expected.ids) {
        const [row, other] = [table.rowOf(id), expected.rowOf(id)];
        expect(table.order.last[row]).toBe(expected.order.last[other]);
        expect(sums.of(row)).toEqual(fresh.of(other));
      }
    }
  });

  it("moves spans below a parent that comes late, or changes", () => {
    const table = whole([
      { id: "c", parent: "s", kind: "tool", start: 20 },
      { id: "x", start: 30 },
    ]);
    expect(read(table)).toEqual(["0 c", "0 x"]);
    table.merge(timeline([{ id: "s", kind: "step", start: 10 }], 2, false));
    expect(read(table)).toEqual(["0 s", "1 c", "0 x"]);
    const change = table.merge(timeline([{ id: "x", parent: "c", start: 30 }], 3, false));
    expect(read(table)).toEqual(["0 s", "1 c", "2 x"]);
    expect(change).toEqual({ ids: ["x"], from: 0 });
  });

  it("shows spans that name each other or themselves as parents once each", () => {
    const table = whole([
      { id: "a", parent: "b", start: 0 },
      { id: "b", parent: "a", start: 1 },
      { id: "c", parent: "c", start: 2 },
    ]);
    expect(read(table).map((line) => line.slice(2)).sort()).toEqual(["a", "b", "c"]);
  });

  it("tells from where on the order changed, so that what goes on at the end costs no more than itself", () => {
    const spans = session(500, 3);
    const table = whole(spans.slice(0, 400));
    expect(table.merge(timeline(spans.slice(400), 2, false)).from).toBe(400);
    const last = spans.at(-1);
    expect(last && table.merge(timeline([{ ...last, status: "error" }], 3, false)).from).toBe(499);
  });

  it("counts tokens of other sessions nowhere and costs without a price as unknown", () => {
    const table = whole([
      { id: "t", start: 0 },
      { id: "a", parent: "t", kind: "step", start: 1, input: 10, output: 1, cost: 0.5, currency: "USD" },
      { id: "b", parent: "t", kind: "step", start: 2, input: 20, output: 2, cost: 7, currency: "CNY" },
      { id: "c", parent: "t", kind: "step", start: 3, input: 40, output: 4 },
      { id: "d", parent: "t", kind: "step", start: 4, input: 80, output: 8, counted: false },
      { id: "e", start: 5, status: "error" },
    ]);
    const sums = new RollUp(table);
    sums.update(0);
    expect(sums.of(table.rowOf("t"))).toMatchObject({ input: 70, output: 7, steps: 4, errors: 0, unpriced: 1 });
    expect(sums.of(table.rowOf("t")).costs).toEqual({ USD: 0.5, CNY: 7 });
    expect(sums.all().errors).toBe(1);
  });

  it("takes thirty thousand spans and then one more", ({ annotate }) => {
    const spans = session(30_000);
    const news = timeline(spans);
    const table = new SpanTable();
    const sums = new RollUp(table);
    const start = performance.now();
    sums.update(table.merge(news).from);
    const built = performance.now();
    sums.update(table.merge(timeline([{ id: "new", start: 1e12 }], 2, false)).from);
    const appended = performance.now();
    void annotate(`built in ${(built - start).toFixed(1)} ms, one more in ${(appended - built).toFixed(2)} ms`);
    expect(table.order.length).toBe(30_001);
    expect(sums.all().steps + sums.all().tools).toBeGreaterThan(20_000);
  });
});
