/** Usage queries and their addresses, measures, stacks, throttling. */
import { describe, expect, test } from "vitest";

import type { Bill, UsageGroup, UsageOutcomes } from "../../api/shapes";
import { formats } from "../../format";
import { address } from "../../url";
import { amountOf, measureFor, measuresOf, ranked, stacksOf } from "./measure";
import { ALWAYS, apiParams, nextOf, questionOf, questionParams, regrouped, withGaps } from "./question";
import { priceLines } from "./remarks-strip";
import { Throttle } from "./throttle";
import { cameOf } from "./usage-table";

function bill(tokens: number, costs: Record<string, number> = {}): Bill {
  return {
    input_tokens: tokens,
    output_tokens: 0,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
    requests: 1,
    cost: null,
    currency: null,
    costs,
    unpriced_tokens: 0,
    unpriced_models: [],
    estimated_requests: 0,
    folded_copies: 0,
  };
}

const NO_OUTCOMES: UsageOutcomes = { commits: 0, added: 0, removed: 0, cost_per_commit: {}, known_from: [] };

function group(name: string | null, changes: Partial<UsageGroup> = {}): UsageGroup {
  return { group: name, title: null, key: null, bill: bill(1), parts: [], outcomes: NO_OUTCOMES, ...changes };
}

const rewritten = (search: string) => address("", questionParams(questionOf(search))).replace(/^\?/, "");

describe("the question", () => {
  test.each(["", "by=month", "by=model&split=agent", "split=none", "since=all", "by=project&since=7d&agent=a&agent=b&model=m", "since=2026-11-01&until=2026-11-08"])(
    "The address “%s” is read and written as it is.",
    (search) => {
      expect(rewritten(search)).toBe(search);
    },
  );

  test("Nothing is divided by what it is grouped by, and what is unknown is the usual.", () => {
    expect(questionOf("by=model&split=model").split).toBeNull();
    expect(questionOf("by=colour&since=ever")).toEqual(questionOf(""));
  });

  test("All time is asked for without a time.", () => {
    expect(apiParams(questionOf("since=all")).since).toBeNull();
    expect(questionOf("by=month").since).toBe(ALWAYS);
    expect(regrouped(questionOf(""), "month").since).toBe(ALWAYS);
    expect(regrouped(questionOf("since=7d"), "month").since).toBe("7d");
  });

  test("Rows lead on: months to days, days to sessions, names to their days, sessions to their page.", () => {
    expect(nextOf(group("2026-12"), questionOf("by=month"))).toBe("/usage?since=2026-12-01&until=2027-01-01");
    expect(nextOf(group("2026-11-30"), questionOf("agent=codex"))).toBe("/sessions?agent=codex&since=2026-11-30&until=2026-12-01");
    expect(nextOf(group("gpt"), questionOf("by=model&since=7d"))).toBe("/usage?since=7d&model=gpt");
    expect(nextOf(group("id", { key: "00ff" }), questionOf("by=session"))).toBe("/sessions/00ff");
    expect(nextOf(group(null), questionOf("by=project"))).toBeNull();
  });

  test("Days without usage are there, with nothing.", () => {
    const days = withGaps([group("2026-11-03"), group("2026-10-31")]);
    expect(days.map((day) => [day.group, day.bill.input_tokens])).toEqual([
      ["2026-10-31", 1],
      ["2026-11-01", 0],
      ["2026-11-02", 0],
      ["2026-11-03", 1],
    ]);
  });
});

describe("measures", () => {
  test("Cost is the measure where there is one currency; amounts of several are never added.", () => {
    expect(measureFor("", { costs: { USD: 2 } })).toBe("USD");
    expect(measureFor("", { costs: { USD: 2, CNY: 3 } })).toBe("tokens");
    expect(measureFor("USD", { costs: { USD: 2, CNY: 3 } })).toBe("USD");
    expect(measureFor("EUR", { costs: {} })).toBe("tokens");
    expect(measuresOf({ costs: { USD: 2, CNY: 3 } })).toEqual(["CNY", "USD", "tokens"]);
  });

  test("Ranked by cost, what has no price stands last, by its tokens.", () => {
    const rows = [{ bill: bill(5) }, { bill: bill(9) }, { bill: bill(1, { USD: 1 }) }];
    expect(ranked(rows, "USD").map((row) => row.bill.input_tokens)).toEqual([1, 9, 5]);
  });

  test("Stacks keep every amount: what is not named is in the last series.", () => {
    const parts = Array.from({ length: 12 }, (_, at) => ({ name: `m${at}`, bill: bill(at + 1) }));
    const { names, amounts } = stacksOf([parts, parts.slice(0, 3)], "tokens");
    expect(names).toHaveLength(8);
    expect(names.at(-1)).toBeNull();
    const sum = amounts.flat().reduce((all, amount) => all + amount, 0);
    expect(sum).toBe([...parts, ...parts.slice(0, 3)].reduce((all, part) => all + amountOf(part.bill, "tokens"), 0));
  });

  test("A price can be written for a model with any name.", () => {
    expect(priceLines(['a "b"\n'])).toContain('[prices."a \\"b\\"\\n"]');
  });
});

describe("asking again", () => {
  test("At once at first, then once for all that happened in between, and never more often.", () => {
    let now = 0;
    const later: (() => void)[] = [];
    const runs: number[] = [];
    const throttle = new Throttle(2000, () => runs.push(now), { now: () => now, later: (_ms, run) => (later.push(run), () => later.pop()) });
    for (now of [0, 100, 900]) throttle.ask();
    expect(runs).toEqual([0]);
    now = 2000;
    later.shift()?.();
    now = 2100;
    throttle.ask();
    expect(runs).toEqual([0, 2000]);
    throttle.stop();
    expect(later).toEqual([]);
  });
});

test("what came of a group: a dash without commits, never a division by none", () => {
  const f = formats("en");
  const came: UsageOutcomes = { commits: 2, added: 12, removed: null, cost_per_commit: { USD: 0.5 }, known_from: ["log"] };
  const priced = { unpriced_tokens: 0 };
  expect(["lines", "commits", "perCommit"].map((name) => cameOf(name, came, priced, f))).toEqual(["+12 −?", "2", "$0.50"]);
  expect(["lines", "commits", "perCommit"].map((name) => cameOf(name, NO_OUTCOMES, priced, f))).toEqual(["–", "–", "–"]);
  const none: UsageOutcomes = { ...came, commits: 0, cost_per_commit: {} };
  expect(cameOf("lines", { ...came, added: 0, removed: 0 }, priced, f)).toBe("–");
  expect(["commits", "perCommit"].map((name) => cameOf(name, none, priced, f))).toEqual(["–", "–"]);
  expect(cameOf("perCommit", came, { unpriced_tokens: 5 }, f)).toBe("$0.50 +?");
});
