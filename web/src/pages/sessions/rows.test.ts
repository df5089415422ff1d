/** Live rows over loaded pages. */
import { describe, expect, test } from "vitest";

import type { SessionList, SessionRow } from "../../api/shapes";
import type { View } from "./filters";
import { viewOf } from "./filters";
import { NO_NEWS, arranged, fits, inOrder, patched, steadied, withNews } from "./rows";

function row(key: string, minute: number, changes: Partial<SessionRow> = {}): SessionRow {
  const at = `2026-11-15T11:${String(minute).padStart(2, "0")}:00.000000Z`;
  return {
    key,
    session_id: `id-${key}`,
    agent: "codex",
    title: `Title ${key}`,
    project: "/home/dev/shop",
    state: "working",
    started_at: "2026-11-15T11:00:00.000000Z",
    last_at: at,
    turns: 1,
    steps: 1,
    tools: 0,
    errors: 0,
    events: 3,
    branch: null,
    machine: null,
    person: null,
    model: "gpt",
    models: ["gpt"],
    version: null,
    parent: null,
    demo: false,
    outcomes: null,
    marks: { starred: false, labels: [], scores: {}, notes: 0, revision: 0 },
    bill: {
      input_tokens: 1,
      output_tokens: 1,
      cache_read_tokens: 0,
      cache_write_tokens: 0,
      reasoning_tokens: 0,
      requests: 1,
      cost: 1,
      currency: "USD",
      costs: { USD: 1 },
      unpriced_tokens: 0,
      unpriced_models: [],
      estimated_requests: 0,
      folded_copies: 0,
    },
    ...changes,
  };
}

function page(items: SessionRow[], cursor: number, next: string | null = null): SessionList {
  return { items, cursor, next, total: items.length, since: null, until: null };
}

const keys = (rows: readonly SessionRow[]) => rows.map(({ key }) => key);
const view = (search = ""): View => viewOf(search);

describe("patched", () => {
  test("A row of the stream replaces that of a page only where it is not older.", () => {
    const news = withNews(NO_NEWS, { cursor: 10, rows: [row("a", 30), row("b", 30)] });
    const rows = patched([page([row("a", 1)], 9), page([row("b", 40)], 11)], news);
    expect(rows.map(({ last_at: at }) => at?.slice(14, 16))).toEqual(["30", "40"]);
  });

  test("A session that moved between two pages while they were loaded is there once.", () => {
    expect(keys(patched([page([row("a", 9), row("b", 8)], 1, "x"), page([row("b", 8), row("c", 7)], 1)], NO_NEWS))).toEqual(["a", "b", "c"]);
  });
});

describe("arranged", () => {
  test("A new session stands where the order puts it, and one that no longer fits is gone.", () => {
    const news = withNews(NO_NEWS, { cursor: 5, rows: [row("new", 59), row("a", 58, { state: "ended" })] });
    const pages = [page([row("a", 9), row("b", 8)], 1)];
    expect(keys(arranged(pages, news, view()))).toEqual(["new", "a", "b"]);
    expect(keys(arranged(pages, news, view("state=working")))).toEqual(["new", "b"]);
  });

  test("What belongs after all that is loaded is left to its page while there is a next one.", () => {
    const news = withNews(NO_NEWS, { cursor: 5, rows: [row("old", 1)] });
    expect(keys(arranged([page([row("a", 9)], 1, "more")], news, view()))).toEqual(["a"]);
    expect(keys(arranged([page([row("a", 9)], 1)], news, view()))).toEqual(["a", "old"]);
  });

  test("Rows are chosen and ordered by what came of them; those that were not examined come last.", () => {
    const none = { files: 0, added: 0, removed: 0, commits: 0, pull_requests: 0, test_runs: 0, tests_passed: null, tests_failed: null };
    const rows = [
      row("a", 1),
      row("b", 2, { outcomes: { ...none, files: 1, added: 2, removed: 3, commits: 1 } }),
      row("c", 3, { outcomes: { ...none, files: 1, added: 9, removed: 0, test_runs: 1, tests_failed: 2 } }),
    ];
    const shown = (search: string) => keys(arranged([page(rows, 1)], NO_NEWS, view(search)));
    expect(shown("sort=changes")).toEqual(["c", "b", "a"]);
    expect(shown("sort=commits&order=asc")).toEqual(["c", "b", "a"]);
    expect(shown("outcome=files&outcome=failed_tests")).toEqual(["c"]);
    expect(shown("outcome=pull_requests")).toEqual([]);
  });

  test("Rows without a value come last in either order.", () => {
    const pages = [page([row("none", 1, { last_at: null }), row("a", 2), row("b", 3)], 1)];
    expect(keys(arranged(pages, NO_NEWS, view("order=asc")))).toEqual(["a", "b", "none"]);
    expect(keys(arranged(pages, NO_NEWS, view()))).toEqual(["b", "a", "none"]);
  });

  test("Moments that differ by a microsecond are in their order.", () => {
    const one = row("a", 1, { last_at: "2026-11-15T11:00:00.000001Z" });
    const other = row("b", 1, { last_at: "2026-11-15T11:00:00.000002Z" });
    expect(inOrder(view())(one, other)).toBeGreaterThan(0);
  });
});

describe("steadied", () => {
  test("While somebody reads, values change but nothing moves, and new sessions are counted instead of shown.", () => {
    const loaded = [row("a", 5), row("b", 50)];
    const news = withNews(NO_NEWS, { cursor: 9, rows: [row("new", 59)] });
    const steady = steadied(["a", "b"], [row("new", 59), row("b", 50), row("a", 5)], loaded, news);
    expect(keys(steady.rows)).toEqual(["a", "b"]);
    expect(steady.rows[1]?.last_at).toContain("11:50");
    expect(steady.fresh).toBe(1);
  });

  test("Pages that are loaded while somebody reads stand below what is read.", () => {
    const loaded = [row("a", 5), row("b", 4), row("c", 3)];
    expect(keys(steadied(["a", "b"], loaded, loaded, NO_NEWS).rows)).toEqual(["a", "b", "c"]);
  });

  test("A row that does not fit any more stays where it is while somebody reads.", () => {
    const loaded = [row("a", 5, { state: "ended" }), row("b", 4)];
    expect(keys(steadied(["a", "b"], [row("b", 4)], loaded, NO_NEWS).rows)).toEqual(["a", "b"]);
  });
});

describe("fits", () => {
  test.each([
    ["agent=codex", true],
    ["agent=kimi", false],
    ["project=%2Fhome%2Fdev%2Fshop", true],
    ["model=gpt&model=other", true],
    ["model=other", false],
    ["state=waiting", false],
    ["errors=true", false],
    ["min_cost=1", true],
    ["min_cost=1.01", false],
    ["q=TITLE", true],
    ["q=id-a", true],
    ["q=nowhere", false],
  ])("The filter %s says %s, as the server's does.", (search, expected) => {
    expect(fits(row("a", 20), view(search).filters, { since: null, until: null })).toBe(expected);
  });

  test.each([
    ["2026-11-15T11:20:00.000000Z", null, true],
    ["2026-11-15T11:20:00.000001Z", null, false],
    [null, "2026-11-15T11:00:00.000000Z", false],
    [null, "2026-11-15T11:00:01.000000Z", true],
  ])("Active from %s until %s: %s, by the moments that the server gave.", (since, until, expected) => {
    expect(fits(row("a", 20), view("since=today").filters, { since, until })).toBe(expected);
  });
});
