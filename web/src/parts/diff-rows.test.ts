import { diffLines } from "diff";
import { describe, expect, it } from "vitest";

import { folded, rowsOf } from "./diff-rows";

const numbered = (count: number) => Array.from({ length: count }, (_, line) => `line ${line + 1}`);

describe("a comparison", () => {
  it("holds every line of both texts with its number", () => {
    const before = numbered(40);
    const after = [...before.slice(0, 9), "new", ...before.slice(10, 30), ...before.slice(32), "last"];
    const rows = rowsOf(diffLines(`${before.join("\n")}\n`, `${after.join("\n")}\n`), true);
    const left = rows.filter((row) => row.before !== null);
    const right = rows.filter((row) => row.after !== null);
    expect(left.map((row) => row.text)).toEqual(before);
    expect(right.map((row) => row.text)).toEqual(after);
    expect(left.map((row) => row.before)).toEqual(before.map((_, line) => line + 1));
    expect(right.map((row) => row.after)).toEqual(after.map((_, line) => line + 1));
  });

  it("of parts of a file has every line, and no number", () => {
    const changes = diffLines("a\nb\n", "a\nc\n");
    const rows = rowsOf(changes, false);
    expect(rows.map(({ change, text }) => [change, text])).toEqual(rowsOf(changes, true).map(({ change, text }) => [change, text]));
    expect(rows.flatMap(({ before, after }) => [before, after]).filter((number) => number !== null)).toEqual([]);
  });

  it("folds only lines that are far from every change, and loses none", () => {
    const before = numbered(40);
    const rows = rowsOf(diffLines(before.join("\n"), before.with(20, "changed").join("\n")), true);
    const blocks = folded(rows);
    expect(blocks.flatMap((block) => block.rows)).toEqual(rows);
    expect(blocks.map((block) => block.fold)).toEqual([true, false, true]);
    expect(blocks[1]?.rows).toHaveLength(3 + 2 + 3);
  });

  it("of equal texts is one fold", () => {
    expect(folded(rowsOf(diffLines("a\nb\n", "a\nb\n"), true)).map((block) => block.fold)).toEqual([true]);
  });
});
