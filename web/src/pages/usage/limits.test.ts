import { describe, expect, it } from "vitest";

import type { AgentBudget, ProviderWindow } from "../../api/shapes";
import { formats } from "../../format";
import { amount, openWindows, pace, tone } from "./limits";
import { text } from "./limits-text";

const f = formats("en");

describe("budgets and limits", () => {
  it("say amounts in their unit", () => {
    expect(amount(f, { unit: "money", currency: "USD" }, 12.5)).toBe("$12.50");
    expect(amount(f, { unit: "money", currency: null }, 0)).toBe("0");
    expect(amount(f, { unit: "tokens", currency: null }, 1_234_567.8)).toBe("1.23M");
  });

  it("are coloured by their share", () => {
    expect([null, 0, 0.79, 0.8, 0.99, 1, 2].map(tone)).toEqual([
      "accent",
      "accent",
      "accent",
      "waiting",
      "waiting",
      "failed",
      "failed",
    ]);
  });

  it("have a pace only where it is known", () => {
    const budget = { rate: 1, recent_rate: 2, forecast: 3 } as AgentBudget;
    expect(pace(budget)).toEqual({ rate: 1, recent: 2, forecast: 3 });
    expect(pace({ ...budget, recent_rate: null })).toBeNull();
  });

  it("leave out windows that have ended", () => {
    const window = { expired: false, resets_at: "2026-11-11T12:00:00Z" } as ProviderWindow;
    const noon = Date.parse(window.resets_at);
    expect(openWindows([window], noon - 1)).toHaveLength(1);
    expect(openWindows([window], noon)).toHaveLength(0);
    expect(openWindows([{ ...window, expired: true }], noon - 1)).toHaveLength(0);
  });

  it("have the same words in both languages", () => {
    expect(Object.keys(text.zh)).toEqual(Object.keys(text.en));
  });
});
