import { describe, expect, it } from "vitest";

import type { Rule, RuleAction } from "../../api/shapes";
import { actionDraftOf, actionTable, draftOf, durationText, isEditable, keptFilters, newAction, newDraft, tableOf } from "./draft";

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

  it("keeps filters that it has no field for", () => {
    const rule: Rule = { ...RULE, where: { tool: ["Bash"], odd: ["new"], budget: ["shop"], secret: ["aws-*"] } };
    const draft = draftOf(rule);
    expect(tableOf(draft)["where"]).toEqual(rule.where);
    expect(tableOf({ ...draft, where: { ...draft.where, tool: "Read" } })["where"]).toEqual({ ...rule.where, tool: ["Read"] });
    // Of another event: those that no event has a field for.
    expect(keptFilters({ ...draft, on: "turn.failed" })).toEqual({ odd: ["new"] });
    expect(tableOf({ ...draft, on: "turn.failed" })["where"]).toEqual({ odd: ["new"] });
    const secrets: Rule = { ...RULE, on: "secret.found", where: { secret: ["*"], errors: true } };
    expect(draftOf(secrets).where.secret).toBe("*");
    expect(tableOf(draftOf(secrets))["where"]).toEqual(secrets.where);
  });

  it("leaves a number that is none to the server, which names it", () => {
    expect(tableOf({ ...newDraft(), max_per_day: "many" })["max_per_day"]).toBe("many");
  });
});

it("writes durations as settings have them", () => {
  expect([0, 5, 60, 90, 5400, 90_061].map(durationText)).toEqual(["0s", "5s", "1m", "1m 30s", "1h 30m", "1d 1h 1m 1s"]);
});

it("writes of an action what its type has", () => {
  const draft = { ...newAction("en"), url: " https://example.com/x ", apps: ["a", "b"], max_chars: "900", timeout_seconds: "60" };
  const shared = { timeout_seconds: 60 };
  expect(actionTable(draft)).toEqual({ type: "webhook", url: "https://example.com/x", format: "slack", ...shared });
  expect(actionTable({ ...draft, type: "notify" })).toEqual({ type: "notify", ...shared });
  expect(actionTable({ ...newAction("zh"), type: "notify" })).toEqual({ type: "notify", language: "zh" });
  expect(actionTable({ ...draft, type: "chain", language: "zh" })).toEqual({ type: "chain", apps: ["a", "b"], input: "conversation", keep: ["note"], max_chars: 900, language: "zh", ...shared });
});

it("reads headers line by line, and leaves a line that is none to the server", () => {
  const draft = { ...newAction("en"), headers: "X-Key: a:b\n\n Authorization :  Bearer 1 \nodd" };
  expect(actionTable(draft)["headers"]).toEqual({ "X-Key": "a:b", Authorization: "Bearer 1", odd: "" });
});

const HOOK: RuleAction = {
  name: "chat",
  type: "webhook",
  address: "https://example.com/…",
  format: "teams",
  signed: true,
  headers: ["X-Key"],
  allow_private: true,
  apps: [],
  input: null,
  max_chars: null,
  keep: [],
  language: "en",
  command: null,
  timeout_seconds: 12,
  missing: [],
  origin: "console",
};
const CHAIN: RuleAction = { ...HOOK, name: "review", type: "chain", address: null, format: null, signed: false, headers: [], allow_private: false, apps: ["a", "b"], input: "turn", max_chars: 5000, keep: ["score"], language: "zh" };

describe("the draft of an action", () => {
  it("becomes the same action again, without the secrets, which stay", () => {
    expect(actionTable(actionDraftOf(HOOK))).toEqual({ type: "webhook", format: "teams", allow_private: true, timeout_seconds: 12 });
    expect(actionTable(actionDraftOf(CHAIN))).toEqual({ type: "chain", apps: ["a", "b"], input: "turn", max_chars: 5000, keep: ["score"], language: "zh", timeout_seconds: 12 });
    expect(actionTable(actionDraftOf({ ...HOOK, type: "notify" }))).toEqual({ type: "notify", timeout_seconds: 12 });
  });

  it("takes secrets out where that is asked for, and new ones count", () => {
    const draft = { ...actionDraftOf(HOOK), drop: { secret: true, headers: true } };
    expect(actionTable(draft)).toMatchObject({ secret: null, headers: null });
    expect(actionTable({ ...draft, secret: "new", headers: "A: b" })).toMatchObject({ secret: "new", headers: { A: "b" } });
  });

  it("is made of what the console may change", () => {
    expect([HOOK, { ...HOOK, origin: "ready" }, { ...HOOK, origin: "file" }, { ...HOOK, type: "command" as const }].map(isEditable)).toEqual([true, true, false, false]);
  });
});
