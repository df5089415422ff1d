/** Which entries the palette shows, and in what order. */
import { describe, expect, test } from "vitest";

import type { Item } from "./items";
import { SEARCH_ALL, fit, readRecent, sections, withRecent } from "./items";

const item = (id: string, group: Item["group"], label: string, more: Partial<Item> = {}): Item => ({
  id,
  group,
  label,
  icon: "search",
  ...more,
});

const ITEMS = [
  item("p:usage", "pages", "Usage"),
  item("p:sessions", "pages", "Sessions"),
  item("a:dark", "actions", "Dark theme", { words: "night" }),
  item("m:sonnet", "models", "claude-sonnet-4-5"),
  item("j:shop", "projects", "shop", { note: "/home/dev/shop" }),
  item("s:1", "sessions", "Flaky test"),
];

const shown = (typed: string, recent: string[] = []) =>
  sections(ITEMS, typed, recent).map(({ group, items }) => [group, ...items.map(({ id }) => id)]);

describe("what fits", () => {
  test("All words must be in an entry, in any case and order; the beginning of a word is better.", () => {
    const sonnet = item("m", "models", "claude-sonnet-4-5");
    expect(fit(sonnet, "4 CLAUDE")).toBeGreaterThan(0);
    expect(fit(sonnet, "claude opus")).toBe(0);
    expect(fit(sonnet, "sonnet")).toBeGreaterThan(fit(sonnet, "onnet"));
    expect(fit(sonnet, "claude")).toBeGreaterThan(fit(sonnet, "sonnet"));
    expect(fit(item("a", "actions", "Dark theme", { words: "night" }), "night")).toBeGreaterThan(0);
  });

  test("Any text is only a text.", () => {
    expect(fit(item("a", "pages", "a.b*c"), ".*")).toBe(0);
    expect(fit(item("a", "pages", "a.b*c"), "b*c")).toBeGreaterThan(0);
  });
});

describe("the list", () => {
  test("Without words recent entries come first, and once.", () => {
    expect(shown("", ["m:sonnet", "p:usage", "gone"])).toEqual([
      ["recent", "m:sonnet", "p:usage"],
      ["pages", "p:sessions"],
      ["actions", "a:dark"],
    ]);
  });

  test("With words the group of the best entry comes first; sessions are those of the server.", () => {
    expect(shown("usage")).toEqual([["pages", "p:usage"], ["sessions", "s:1"]]);
    expect(shown("nothing like it")).toEqual([["sessions", "s:1"]]);
  });

  test("Sessions of the words before stay only while they fit.", () => {
    const ids = (typed: string) => sections(ITEMS, typed, [], false).flatMap(({ items }) => items.map(({ id }) => id));
    expect(ids("flaky")).toEqual(["s:1"]);
    expect(ids("usage")).toEqual(["p:usage"]);
  });

  test("The search in all texts, which every word fits, comes last.", () => {
    const all = [item(SEARCH_ALL, "actions", "Search all texts for “theme”", { words: "theme" }), ...ITEMS];
    expect(sections(all, "theme", []).flatMap(({ items }) => items.map(({ id }) => id))).toEqual(["a:dark", SEARCH_ALL, "s:1"]);
    expect(sections(all, "flaky", []).flatMap(({ items }) => items.map(({ id }) => id))).toEqual(["s:1", SEARCH_ALL]);
  });
});

describe("recent entries", () => {
  test("The last one comes first, and is there once.", () => {
    const one = withRecent([], item("a", "pages", "A", { href: "/a" }));
    const two = withRecent(one, item("b", "pages", "B", { href: "/b" }));
    expect(withRecent(two, item("a", "pages", "A", { href: "/a" })).map(({ id }) => id)).toEqual(["a", "b"]);
  });

  test("What a browser kept and is no entry is dropped, and so is what leads elsewhere.", () => {
    const kept = [{ id: "a", group: "pages", label: "A", href: "/a" }];
    const bad = [{ id: "b", group: "pages", label: "B", href: "//evil.example" }, { id: "c", group: "pages", label: "C", href: "javascript:x" }, 3];
    expect(readRecent(JSON.stringify([...kept, ...bad]))).toEqual(kept);
    expect(readRecent("{")).toEqual([]);
  });
});
