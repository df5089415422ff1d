import { describe, expect, it } from "vitest";

import { cost, formats, money, momentOf, percent, size, tokens } from "./format";

const en = formats("en");
const zh = formats("zh");
const NOW = Date.parse("2026-11-15T12:00:00Z");
const before = (seconds: number) => NOW - seconds * 1000;

describe("tokens", () => {
  it("are as short as the command line says them", () => {
    expect([0, 950, 12_345, 999_949, 999_950, 4_560_000, 1_200_000_000].map(tokens)).toEqual([
      "0", "950", "12.3k", "999.9k", "1.00M", "4.56M", "1.20B",
    ]);
  });

  it("that are not known are not 0", () => {
    expect(tokens(null)).toBe("–");
  });
});

describe("money", () => {
  it("has cents, groups, and more digits below a cent", () => {
    expect(money(1.234, "USD")).toBe("$1.23");
    expect(money(1234567.891, "CNY")).toBe("¥1,234,567.89");
    expect(money(0.0042, "USD")).toBe("$0.0042");
    expect(money(0.00001, "USD")).toBe("<$0.0001");
    expect(money(0, "USD")).toBe("$0.00");
    expect(money(2, "XYZ")).toBe("XYZ 2.00");
  });

  it("without an amount or a currency is a dash", () => {
    expect(money(null, "USD")).toBe("–");
    expect(money(1, null)).toBe("–");
  });

  it("says of a bill what has no price, and never 0 for it", () => {
    expect(cost({ costs: {}, unpriced_tokens: 0 })).toBe("–");
    expect(cost({ costs: {}, unpriced_tokens: 5 })).toBe("?");
    expect(cost({ costs: { USD: 1.5 }, unpriced_tokens: 0 })).toBe("$1.50");
    expect(cost({ costs: { USD: 1.5, CNY: 4 }, unpriced_tokens: 1 })).toBe("$1.50 + ¥4.00 +?");
  });
});

describe("sizes and shares", () => {
  it("change the unit before four digits", () => {
    expect([0, 999, 1000, 99_940, 99_960, 999_600, 1.2e9, 5e15].map((bytes) => size(bytes))).toEqual([
      "0 B", "999 B", "1.0 kB", "99.9 kB", "100 kB", "1.0 MB", "1.2 GB", "5000 TB",
    ]);
  });

  it("show that a small share is not nothing", () => {
    expect([percent(0), percent(0.0001), percent(0.034), percent(0.5), percent(1), percent(1, 0)]).toEqual([
      "0%", "<0.1%", "3.4%", "50%", "100%", "–",
    ]);
  });
});

describe("durations", () => {
  it("keep two figures in English", () => {
    const said = [0.4, 850, 3_210, 59_960, 245_000, 7_980_000, 273_600_000].map(en.duration);
    expect(said).toEqual(["0.4 ms", "850 ms", "3.2 s", "1m 00s", "4m 05s", "2h 13m", "3d 04h"]);
  });

  it("are said in Chinese units", () => {
    expect([850, 3_210, 245_000, 7_980_000].map(zh.duration)).toEqual(["850 毫秒", "3.2 秒", "4 分 05 秒", "2 小时 13 分"]);
  });

  it("of what still runs go up to now", () => {
    expect(en.between(before(90), null, NOW)).toBe("1m 30s");
    expect(en.between(null, null, NOW)).toBe("–");
  });
});

describe("moments", () => {
  it("are said in the largest unit that has passed", () => {
    expect(en.ago(before(0.5), NOW)).toBe("just now");
    expect(en.ago(before(59), NOW)).toMatch(/^59 sec/);
    expect(en.ago(before(61), NOW)).toMatch(/^1 min/);
    expect(en.ago(before(3600 * 5 + 1800), NOW)).toMatch(/^5 hr/);
    expect(en.ago(before(86_400 * 3), NOW)).toBe("3 days ago");
    expect(zh.ago(before(120), NOW)).toBe("2分钟前");
    expect(zh.ago(before(0), NOW)).toBe("刚刚");
  });

  it("that cannot be read are a dash, not today", () => {
    expect(momentOf("nonsense")).toBeNull();
    expect([en.ago("nonsense"), en.clock(null), en.exact("x"), en.day(null)]).toEqual(["–", "–", "–", "–"]);
  });

  it("show the clock today, the day this year, the year before", () => {
    const noon = new Date(2026, 10, 15, 12).getTime();
    expect(en.clock(new Date(2026, 10, 15, 9, 5).getTime(), noon)).toBe("09:05");
    expect(en.clock(new Date(2026, 10, 14, 9, 5).getTime(), noon)).toMatch(/^14 Nov.*09:05$/);
    expect(en.clock(new Date(2025, 10, 14, 9, 5).getTime(), noon)).toBe("14 Nov 2025");
    expect(zh.clock(new Date(2026, 10, 14, 9, 5).getTime(), noon)).toContain("11月14日");
  });

  it("that are plain dates stay that day in every time zone", () => {
    expect(en.day("2026-11-15")).toBe("15 Nov 2026");
  });
});
