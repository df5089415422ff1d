/** What states of jobs, calls and steps look like. */
import type { ChainStep, JobRow, JobStatus, RunStatus } from "../../api/shapes";
import { StateMark } from "../../parts";
import { useText } from "../../text";
import { text } from "./text";

export const JOB_STATUSES = [
  "pending",
  "running",
  "completed",
  "failed",
  "cancelled",
  "budget_exceeded",
  "skipped_duplicate",
] as const satisfies readonly JobStatus[];

export const CALL_STATUSES = [
  "pending",
  "running",
  "success",
  "failed",
  "timeout",
  "circuit_open",
  "rate_limited",
  "budget_exceeded",
] as const satisfies readonly RunStatus[];

/** What nothing changes any more. */
export function isOver(status: string): boolean {
  return status !== "pending" && status !== "running";
}

/** Some of its steps failed, though it went on to its end. */
function isPartly(job: JobRow): boolean {
  return job.status === "completed" && job.error_message !== null;
}

export function JobMark({ job }: { job: JobRow }) {
  const t = useText(text);
  const word = t.statuses[job.status as keyof typeof t.statuses];
  if (job.cancel_requested && !isOver(job.status)) return <StateMark state="interrupted" label={t.cancelling} />;
  if (isPartly(job)) return <StateMark state="warn" label={t.partly} />;
  return <StateMark state={job.status === "skipped_duplicate" ? "skipped" : job.status} label={word} />;
}

export function CallMark({ status }: { status: string }) {
  const t = useText(text);
  return <StateMark state={status} label={t.statuses[status as keyof typeof t.statuses]} />;
}

/** A step that waits is not waiting for a user, which is what that state means elsewhere. */
export function StepMark({ step, bare }: { step: ChainStep; bare?: boolean }) {
  const t = useText(text);
  const { status } = step;
  const word = t.statuses[status as keyof typeof t.statuses];
  return <StateMark state={status === "waiting" ? "pending" : status} label={word} bare={bare} />;
}
