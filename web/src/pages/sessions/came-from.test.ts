/** Back to the list, and on to its neighbours. */
import { describe, expect, test } from "vitest";

import { firstAfter, neighboursIn, readList } from "./came-from";

const LIST = { search: "state=waiting", keys: ["a", "b", "c"] };

describe("neighbours", () => {
  test("In the order of the list, with its filters.", () => {
    expect(neighboursIn(LIST, "b")).toEqual({ back: "/sessions?state=waiting", previous: "a", next: "c" });
    expect(neighboursIn({ ...LIST, search: "" }, "a")).toEqual({ back: "/sessions", previous: null, next: "b" });
    expect(neighboursIn(LIST, "c")?.next).toBeNull();
  });

  test("A list without the session has none.", () => {
    expect(neighboursIn(LIST, "x")).toBeNull();
    expect(neighboursIn(null, "a")).toBeNull();
  });

  test("Anything that was stored is read or ignored.", () => {
    expect(readList(JSON.stringify(LIST))).toEqual(LIST);
    for (const kept of [null, "", "{", "7", '{"search":1,"keys":[]}', '{"search":"","keys":[1]}']) expect(readList(kept)).toBeNull();
  });

  test("By time, the one that began next.", () => {
    const rows = [{ key: "a", started_at: "2026-01-01" }, { key: "b", started_at: "2026-01-03" }, { key: "c", started_at: null }];
    expect(firstAfter(rows, { key: "x", started_at: "2026-01-02" })?.key).toBe("b");
    expect(firstAfter(rows, { key: "b", started_at: "2026-01-03" })).toBeNull();
    expect(firstAfter(rows, { key: "x", started_at: null })).toBeNull();
  });
});
