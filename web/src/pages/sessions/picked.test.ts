import { describe, expect, it } from "vitest";

import { toggled } from "./picked";

describe("the selection", () => {
  it("has at most two sessions: the newest replaces the second", () => {
    expect(toggled([], "a")).toEqual(["a"]);
    expect(toggled(["a"], "b")).toEqual(["a", "b"]);
    expect(toggled(["a", "b"], "c")).toEqual(["a", "c"]);
  });

  it("leaves out what is selected again", () => {
    expect(toggled(["a", "b"], "a")).toEqual(["b"]);
    expect(toggled(["a"], "a")).toEqual([]);
  });
});
