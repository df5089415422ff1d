/** Unified diffs as rows. */
import { expect, test } from "vitest";

import { hunksOf } from "./unified-diff";

const DIFF = "@@ -3,3 +3,3 @@\n a\n-b\n+c\n d\n@@ -9,1 +9,2 @@\n e\n+f\n\\ No newline at end of file\n";

test("Rows have the numbers of both files.", () => {
  const [first, second] = hunksOf(DIFF, true);
  expect(first?.rows.map(({ change, before, after, text }) => [change, before, after, text])).toEqual([
    [null, 3, 3, "a"],
    ["removed", 4, null, "b"],
    ["added", null, 4, "c"],
    [null, 5, 5, "d"],
  ]);
  expect(second?.rows.map((row) => row.after)).toEqual([9, 10]);
});

test("Numbers that are not those of the file are left out.", () => {
  expect(hunksOf(DIFF, false).flatMap((hunk) => hunk.rows).every((row) => row.before === null && row.after === null)).toBe(true);
});

test("Lines that look like headers of files are lines.", () => {
  const [hunk] = hunksOf("@@ -1,1 +1,1 @@\n--- a\n+++ b\n", true);
  expect(hunk?.rows.map((row) => row.text)).toEqual(["-- a", "++ b"]);
});

test("Anything else is no hunk.", () => {
  expect(hunksOf("", true)).toEqual([]);
  expect(hunksOf("Index: x\n--- a\n+++ b\n", true)).toEqual([]);
});
