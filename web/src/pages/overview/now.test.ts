/** What runs now. */
import { expect, test } from "vitest";

import type { SessionRow } from "../../api/shapes";
import { NOTHING_NEW, inPlace, nowOf } from "./now";

const AT = "2026-11-15T12:00:00.000000Z";

function row(key: string, state: SessionRow["state"], last_at: string): SessionRow {
  return { key, state, last_at } as SessionRow;
}

const keys = (rows: SessionRow[]) => rows.map(({ key }) => key);

test("A session that the stream tells of moves to what it does now.", () => {
  const overview = { at: AT, working: [row("a", "working", AT), row("b", "working", AT)], waiting: [], failed: [] };
  const news = new Map([
    ["a", row("a", "waiting", AT)],
    ["c", row("c", "interrupted", AT)],
    ["d", row("d", "ended", AT)],
  ]);
  const now = nowOf(overview, news);
  expect([keys(now.working), keys(now.waiting), keys(now.failed)]).toEqual([["b"], ["a"], ["c"]]);
});

test("What waits or failed for more than a day is not of now, what works is.", () => {
  const old = "2026-11-14T11:00:00.000000Z";
  const overview = { at: AT, working: [row("a", "working", old)], waiting: [row("b", "waiting", old)], failed: [row("c", "interrupted", old)] };
  expect(nowOf(overview, NOTHING_NEW)).toMatchObject({ working: [{ key: "a" }], waiting: [], failed: [] });
});

test("An older row of the stream does not undo a newer answer.", () => {
  const overview = { at: AT, working: [row("a", "working", AT)], waiting: [], failed: [] };
  expect(keys(nowOf(overview, new Map([["a", row("a", "waiting", "2026-11-15T11:00:00.000000Z")]])).working)).toEqual(["a"]);
});

test("Rows keep their places; new ones stand first, those that are gone leave no gap.", () => {
  const rows = [row("c", "working", AT), row("new", "working", AT), row("a", "working", AT)];
  expect(keys(inPlace(["a", "b", "c"], rows))).toEqual(["new", "a", "c"]);
});
