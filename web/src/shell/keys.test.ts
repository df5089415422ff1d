import { describe, expect, it } from "vitest";

import { KeyReader } from "./keys";

const shortcut = (keys: string, does = keys) => ({ keys, does, run: () => {} });
const ALL = [shortcut("g s"), shortcut("g o"), shortcut("s"), shortcut("j", "shell"), shortcut("j", "page")];

/** The actions of a sequence of key presses with these delays in milliseconds. */
function pressed(...presses: [string, number][]): (string | undefined)[] {
  const reader = new KeyReader();
  let now = 0;
  return presses.map(([key, after]) => reader.press(key, (now += after), ALL)?.does);
}

describe("key presses", () => {
  it("mean a sequence when its keys follow each other", () => {
    expect(pressed(["g", 0], ["s", 200])).toEqual([undefined, "g s"]);
  });

  it("mean the single key when the first one is long ago", () => {
    expect(pressed(["g", 0], ["s", 5000])).toEqual([undefined, "s"]);
  });

  it("forget a first key that nothing followed", () => {
    expect(pressed(["g", 0], ["x", 10], ["s", 10])).toEqual([undefined, undefined, "s"]);
    expect(pressed(["g", 0], ["g", 10], ["o", 10])).toEqual([undefined, undefined, "g o"]);
  });

  it("are the page's before they are the shell's", () => {
    expect(pressed(["j", 0])).toEqual(["page"]);
  });
});
