/** Sums over the calls of a step or job. */
import type { ChainStep, RunRow, StepCall } from "../../api/shapes";

export interface StepFigures {
  start: string | null;
  /** Null while it runs. */
  end: string | null;
  tokens: number;
  estimated: boolean;
  attempts: number;
  calls: number;
}

/** The calls of a job without tokens reported by the provider. */
export function estimatedCalls(rows: readonly RunRow[]): ReadonlySet<number> {
  return new Set(rows.filter((row) => row.tokens_estimated).map((row) => row.id));
}

export function stepFigures(calls: readonly StepCall[], estimated: ReadonlySet<number>): StepFigures {
  return {
    start: calls[0]?.created_at ?? null,
    end: calls.at(-1)?.finished_at ?? null,
    tokens: calls.reduce((sum, call) => sum + call.tokens_used, 0),
    estimated: calls.some((call) => estimated.has(call.run_id)),
    attempts: calls.reduce((sum, call) => sum + call.attempts, 0),
    calls: calls.length,
  };
}

export function jobTokens(steps: readonly ChainStep[]): number {
  return steps.reduce((sum, step) => sum + step.calls.reduce((all, call) => all + call.tokens_used, 0), 0);
}

const BAD = ["failed", "timeout", "circuit_open", "rate_limited", "budget_exceeded"];

/** The default step: a failed one, else a running one, else the last to end. */
export function firstToSee(steps: readonly ChainStep[]): ChainStep | undefined {
  return (
    steps.find((step) => BAD.includes(step.status)) ??
    steps.find((step) => step.status === "running") ??
    lastEnded(steps) ??
    steps[0]
  );
}

function lastEnded(steps: readonly ChainStep[]): ChainStep | undefined {
  const end = (step: ChainStep) => step.calls.at(-1)?.finished_at ?? "";
  const called = steps.filter((step) => step.calls.length > 0);
  return called.sort((a, b) => (end(a) < end(b) ? -1 : 1)).at(-1);
}

/** The job that a duplicate would have repeated; the server has it only in its message. */
export function duplicateOf(message: string | null): number | null {
  const found = /^duplicate of job (\d{1,15})$/.exec(message ?? "");
  return found ? Number(found[1]) : null;
}

/** Tokens; estimated ones are marked. */
export function roughly(count: string, estimated: boolean): string {
  return estimated ? `~${count}` : count;
}
