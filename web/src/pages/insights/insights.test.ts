import { expect, test } from "vitest";

import type { Finding, InsightSpan } from "../../api/shapes";
import { formats } from "../../format";
import { sentenceOf } from "./findings";
import { ALWAYS, USUAL, apiParams, narrowed, placeOf, questionOf, questionParams, sorted } from "./question";
import { text } from "./text";

const SPAN: InsightSpan = {
  session: "0000000000000001",
  session_id: "s1",
  agent: "codex",
  title: null,
  project: null,
  span_id: "00000000000000ff",
  at: null,
  turn: 2,
  duration_ms: null,
  status: null,
  error: null,
};

const FINDING: Finding = {
  kind: "retry_loop",
  text: "",
  tool: "Bash",
  model: null,
  error: null,
  arguments: null,
  count: 4,
  sessions: 1,
  turn: 2,
  tokens: 1200,
  costs: {},
  duration_ms: 90_000,
  pause_ms: null,
  first_at: null,
  last_at: null,
  spans: [SPAN],
};

test("the question outlives the address, and defaults are not written", () => {
  expect(questionOf("")).toEqual({ since: USUAL, until: "", agents: [], projects: [], models: [], machines: [], persons: [] });
  expect(questionOf("since=nonsense&until=2026-11-01").since).toBe(ALWAYS);
  const question = questionOf("since=7d&agent=codex&agent=kimi-cli&project=%2Fwork&model=gpt-5&person=amy");
  expect(questionParams(question)).toEqual({
    since: "7d",
    until: null,
    agent: ["codex", "kimi-cli"],
    project: ["/work"],
    model: ["gpt-5"],
    machine: [],
    person: ["amy"],
  });
  expect(questionParams(questionOf("")).since).toBeNull();
  expect(apiParams(questionOf("since=all")).since).toBeNull();
  expect(narrowed(question, "project", "/other").projects).toEqual(["/other"]);
  expect(narrowed(question, "model", "")).toBe(question);
});

test("what is not known comes last in either order", () => {
  const rows = [{ ms: null }, { ms: 3 }, { ms: 9 }];
  expect(sorted(rows, (row) => row.ms, "desc").map((row) => row.ms)).toEqual([9, 3, null]);
  expect(sorted(rows, (row) => row.ms, "asc").map((row) => row.ms)).toEqual([3, 9, null]);
});

test("a finding leads to its span, a lost cache to the requests", () => {
  expect(placeOf(SPAN)).toBe("/sessions/0000000000000001?span=00000000000000ff");
  expect(placeOf(SPAN, "cache_break")).toBe("/sessions/0000000000000001?view=requests&span=00000000000000ff");
});

test("every kind has a sentence in both languages", () => {
  const kinds = ["retry_loop", "repeated_failure", "cache_break", "expensive_turn", "long_wait"] as const;
  for (const language of ["en", "zh"] as const) {
    const said = kinds.map((kind) => sentenceOf({ ...FINDING, kind }, text[language], formats(language)));
    expect(new Set(said).size).toBe(kinds.length);
    expect(said[0]).toContain("Bash");
  }
  expect(sentenceOf({ ...FINDING, kind: "long_wait", tool: null }, text.en, formats("en"))).toBe("Waited 1m 30s for the prompt of turn 2");
});
