import { describe, expect, it } from "vitest";

import type { ChainStep, StepCall } from "../../api/shapes";
import { duplicateOf, firstToSee, jobTokens, stepFigures } from "./figures";

function call(run_id: number, more: Partial<StepCall> = {}): StepCall {
  const at = `2026-11-15T00:00:0${run_id}Z`;
  return {
    run_id,
    status: "success",
    prompt: null,
    response: null,
    tokens_used: 10 * run_id,
    attempts: run_id,
    latency_ms: null,
    model: null,
    error: null,
    created_at: at,
    finished_at: at,
    ...more,
  };
}

function step(name: string, status: ChainStep["status"], calls: StepCall[] = []): ChainStep {
  return { name, app: name, title: name, titles: {}, after: [], status, calls };
}

describe("the figures of a step", () => {
  it("are the sums over its calls, from the first one's beginning to the last one's end", () => {
    expect(stepFigures([call(1), call(3)], new Set([3]))).toEqual({
      start: call(1).created_at,
      end: call(3).finished_at,
      tokens: 40,
      estimated: true,
      attempts: 4,
      calls: 2,
    });
  });

  it("have no end while its last call runs, and no beginning before the first", () => {
    expect(stepFigures([call(1), call(2, { finished_at: null })], new Set()).end).toBeNull();
    expect(stepFigures([], new Set())).toMatchObject({ start: null, end: null, tokens: 0 });
  });

  it("sum up to those of the job", () => {
    expect(jobTokens([step("a", "success", [call(1), call(2)]), step("b", "skipped"), step("c", "success", [call(4)])])).toBe(70);
  });
});

describe("the step that is shown first", () => {
  it("is one that failed, else one that runs, else the one that ended last, else the first", () => {
    const [done, later] = [step("done", "success", [call(5)]), step("later", "success", [call(2)])];
    const waits = step("waits", "waiting");
    expect(firstToSee([done, step("runs", "running"), step("bad", "timeout")])?.name).toBe("bad");
    expect(firstToSee([done, step("runs", "running"), waits])?.name).toBe("runs");
    expect(firstToSee([done, later, waits])?.name).toBe("done");
    expect(firstToSee([waits, step("other", "waiting")])?.name).toBe("waits");
    expect(firstToSee([])).toBeUndefined();
  });
});

describe("the job that a duplicate repeats", () => {
  it("is read from the server's message, and from no other", () => {
    expect(duplicateOf("duplicate of job 12")).toBe(12);
    for (const other of [null, "", "duplicate of job", "duplicate of job 1x", "app3: duplicate of job 1"]) {
      expect(duplicateOf(other)).toBeNull();
    }
  });
});
