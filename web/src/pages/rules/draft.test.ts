import { describe, expect, it } from "vitest";

import type { Rule } from "../../api/shapes";
import { actionTable, draftOf, durationText, newAction, newDraft, tableOf } from "./draft";

const RULE: Rule = {
  name: "tools",
  title: "Failed tools",
  on: "tool.failed",
  where: { agent: ["codex", "claude-code"], min_cost: 0.5, errors: false },
  do: [],
  settle_seconds: 0,
  sample: 0.25,
  once: "span",
  cooldown_seconds: 5400,
  max_per_day: 200,
  tokens_per_day: 50_000,
  start: "2026-11-01",
  mode: "on",
  origin: "console",
  since: null,
  paused: null,
  failures: 0,
  fired_today: 0,
  cost_today: null,
  tokens_today: 0,
  last_fired_at: null,
  states: {},
};

describe("a draft", () => {
  it("of a rule becomes the same rule again", () => {
    expect(tableOf(draftOf(RULE))).toEqual({
      on: "tool.failed",
      title: "Failed tools",
      where: { agent: ["codex", "claude-code"], min_cost: 0.5, errors: false },
      settle: "0s",
      cooldown: "1h 30m",
      sample: 0.25,
      max_per_day: 200,
      tokens_per_day: 50_000,
      once: "span",
      start: "2026-11-01",
    });
  });

  it("says nothing that was not filled in", () => {
    expect(tableOf(newDraft())).toEqual({ on: "session.ended" });
    expect(tableOf({ ...newDraft(), do: ["desktop"] }, "off")).toEqual({ on: "session.ended", do: ["desktop"], mode: "off" });
  });

  it("leaves out filters of other events", () => {
    const draft = { ...newDraft(), errors: "true" as const, where: { ...newDraft().where, tool: "Bash", at_least: "0.8" } };
    expect(tableOf({ ...draft, on: "tool.failed" })["where"]).toEqual({ tool: ["Bash"], errors: true });
    expect(tableOf({ ...draft, on: "budget.crossed" })["where"]).toEqual({ at_least: 0.8 });
  });

  it("leaves a number that is none to the server, which names it", () => {
    expect(tableOf({ ...newDraft(), max_per_day: "many" })["max_per_day"]).toBe("many");
  });
});

it("writes durations as settings have them", () => {
  expect([0, 5, 60, 90, 5400, 90_061].map(durationText)).toEqual(["0s", "5s", "1m", "1m 30s", "1h 30m", "1d 1h 1m 1s"]);
});

it("writes of an action what its type has", () => {
  const draft = { ...newAction("en"), url: " https://example.com/x ", apps: ["a", "b"] };
  expect(actionTable(draft)).toEqual({ type: "webhook", url: "https://example.com/x", format: "slack" });
  expect(actionTable({ ...draft, type: "notify" })).toEqual({ type: "notify" });
  expect(actionTable({ ...newAction("zh"), type: "notify" })).toEqual({ type: "notify", language: "zh" });
  expect(actionTable({ ...draft, type: "chain" })).toEqual({ type: "chain", apps: ["a", "b"], input: "conversation", keep: ["note"] });
});
