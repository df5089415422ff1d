import { describe, expect, it } from "vitest";

import { address, changed, flagOf, numberOf } from "./url";

describe("addresses", () => {
  it("lose what is empty and keep what was not changed", () => {
    expect(changed("q=a&sort=cost", { q: "", sort: null })).toBe("");
    expect(changed("q=a&sort=cost", { q: "b" })).toBe("sort=cost&q=b");
    expect(changed("errors=true&x=1", { errors: false, x: undefined })).toBe("");
  });

  it("hold several values of one name in their order", () => {
    const search = changed("agent=old", { agent: ["b", "", "a"] });
    expect(new URLSearchParams(search).getAll("agent")).toEqual(["b", "a"]);
    expect(changed(search, { agent: [] })).toBe("");
  });

  it("bring back every text that was put into them", () => {
    for (const text of ["a&b=c", "100% ?#/", "中文 مرحبا", "a+b c"]) {
      expect(new URLSearchParams(changed("", { q: text })).get("q")).toBe(text);
    }
  });

  it("keep 0, which is a number, and drop what is none", () => {
    expect(address("/x", { from: 0 })).toBe("/x?from=0");
    expect(address("/x", { from: Number.NaN })).toBe("/x");
  });
});

describe("values of an address", () => {
  it("are numbers only where they are", () => {
    expect(["12", "-1.5", "0", "", " ", "1e3", "12px", "Infinity", null].map(numberOf)).toEqual([
      12, -1.5, 0, null, null, 1000, null, null, null,
    ]);
  });

  it("are flags only where they are set", () => {
    expect(["true", "1", "false", "0", "", null].map(flagOf)).toEqual([true, true, false, false, false, false]);
  });
});
