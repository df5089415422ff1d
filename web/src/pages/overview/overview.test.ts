/** Changes, amounts, bars, the heat map and what needs the user. */
import { describe, expect, test } from "vitest";

import type { ActiveDay, Attention, PartUsage } from "../../api/shapes";
import { formats } from "../../format";
import { barsOf, sayAmounts, sayChange, sayOriginals } from "./change";
import { levelOf, moved, thresholds } from "./heat";
import { placeOf, troubleOf } from "./needs";
import { text } from "./text";

const f = formats("en");

describe("changes", () => {
  test.each([
    [null, null],
    [0, "±0%"],
    [0.004, "±0%"],
    [0.5, "+50%"],
    [-0.25, "−25%"],
    [-1, "−100%"],
    [8.99, "+899%"],
    [11.6, "×13"],
  ])("%s is said as %s", (change, said) => {
    expect(sayChange(change)).toBe(said);
  });

  test("Amounts of several currencies stand side by side; originals are only said where something was converted.", () => {
    expect(sayAmounts({ CNY: 2, USD: 1 }, f)).toBe("¥2.00 + $1.00");
    expect(sayAmounts({}, f)).toBeNull();
    const bill = { costs: { CNY: 9 } };
    expect(sayOriginals({ amounts: { CNY: 2, USD: 1 }, bill } as never, f)).toBe("¥2.00 + $1.00");
    expect(sayOriginals({ amounts: { CNY: 9 }, bill } as never, f)).toBeNull();
  });
});

describe("bars", () => {
  const part = (name: string, requests: number, more: Partial<PartUsage> = {}): PartUsage => ({ name, requests, tokens: null, costs: null, ...more });
  const count = (number: string) => `${number} responses`;

  test("By cost in one currency, by tokens in several, by responses where nothing else is known.", () => {
    const days = [part("a", 1, { tokens: 10, costs: { USD: 2 } }), part("b", 1, { tokens: 40, costs: { USD: 1 } }), part("c", 0, { tokens: 0, costs: {} })];
    expect(barsOf(days, ["USD"], f, count).map(({ height, says }) => [height, says])).toEqual([[1, "$2.00"], [0.5, "$1.00"], [0, "$0.00"]]);
    expect(barsOf(days, ["CNY", "USD"], f, count).map(({ height }) => height)).toEqual([0.25, 1, 0]);
    expect(barsOf([part("00:00", 4), part("01:00", 1)], ["USD"], f, count)).toEqual([
      { name: "00:00", height: 1, says: "4 responses" },
      { name: "01:00", height: 0.25, says: "1 responses" },
    ]);
    expect(barsOf([part("00:00", 0)], [], f, count)[0]?.height).toBe(0);
  });
});

describe("the heat map", () => {
  const days = (...counts: number[]): ActiveDay[] => [{ day: "2026-11-16", hours: [...counts, ...Array.from({ length: 24 - counts.length }, () => 0)] }];

  test("Levels divide the hours with activity into four; one outlier does not make all others pale.", () => {
    const steps = thresholds(days(1, 2, 3, 4, 5, 6, 7, 1000));
    expect([0, 1, 2, 3, 5, 7, 1000].map((count) => levelOf(count, steps))).toEqual([0, 1, 1, 2, 3, 4, 4]);
    expect(levelOf(3, thresholds(days(3, 3)))).toBe(4);
    expect(levelOf(0, thresholds(days()))).toBe(0);
  });

  test("Keys move by one hour or day and stay inside.", () => {
    expect(moved({ day: 3, hour: 5 }, "ArrowLeft", 28)).toEqual({ day: 2, hour: 5 });
    expect(moved({ day: 27, hour: 23 }, "ArrowRight", 28)).toEqual({ day: 27, hour: 23 });
    expect(moved({ day: 3, hour: 0 }, "ArrowUp", 28)).toEqual({ day: 3, hour: 0 });
    expect(moved({ day: 3, hour: 5 }, "End", 28)).toEqual({ day: 27, hour: 5 });
    expect(moved({ day: 3, hour: 5 }, "x", 28)).toBeNull();
  });
});

test("What needs the user is said in words, with the place where it can be mended.", () => {
  const each = (kind: Attention["kind"], more: Partial<Attention> = {}): Attention => ({
    kind, level: "failed", name: "shop", period: null, count: 2, share: 0.83, detail: null, until: null, session_key: null, ...more,
  });
  expect(troubleOf(each("budget"), text.en, f)).toBe("Budget shop: 83% used");
  expect(troubleOf(each("limit", { period: "five_hour" }), text.en, f)).toBe("Limit of shop, 5 hours: 83% used");
  expect(troubleOf(each("limit", { period: "odd" }), text.en, f)).toBe("Limit of shop, odd: 83% used");
  expect(troubleOf(each("export_refused"), text.zh, f)).toBe("shop 拒绝了 2 个 span");
  expect(placeOf(each("rule_paused"))).toBe("/rules");
  expect(placeOf(each("budget", { session_key: "00ff" }))).toBe("/sessions/00ff");
});
