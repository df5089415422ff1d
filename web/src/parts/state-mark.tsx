/** The state of a session, span, call, job, breaker or check: a shape, a colour and a word. */
import { useText } from "../text";
import type { Tone } from "./badge";
import styles from "./state-mark.module.css";
import { visible } from "./text";
import { text } from "./words";

type Shape = "pulse" | "square" | "check" | "cross" | "ring" | "broken" | "dash" | "triangle";
type Look = [Shape, Tone];

const LOOKS: Record<string, Look> = {
  working: ["pulse", "working"],
  running: ["pulse", "working"],
  waiting: ["square", "waiting"],
  ended: ["check", "plain"],
  interrupted: ["broken", "waiting"],
  open: ["pulse", "working"],
  ok: ["check", "plain"],
  success: ["check", "plain"],
  completed: ["check", "plain"],
  valid: ["check", "plain"],
  closed: ["check", "plain"],
  error: ["cross", "failed"],
  failed: ["cross", "failed"],
  fail: ["cross", "failed"],
  timeout: ["cross", "failed"],
  circuit_open: ["cross", "failed"],
  rate_limited: ["triangle", "waiting"],
  budget_exceeded: ["triangle", "waiting"],
  generating: ["pulse", "working"],
  cancelled: ["dash", "plain"],
  skipped: ["dash", "plain"],
  expired: ["dash", "plain"],
  invalidated: ["dash", "plain"],
  unclosed: ["broken", "waiting"],
  pending: ["ring", "plain"],
  half_open: ["triangle", "waiting"],
  warn: ["triangle", "waiting"],
};

const DRAWINGS: Record<Shape, string> = {
  pulse: "M6 3a3 3 0 1 0 .01 0z",
  square: "M3 3h6v6H3z",
  check: "M2.5 6.5l2.5 2.5L9.5 3.5",
  cross: "M3 3l6 6M9 3l-6 6",
  ring: "M6 2.5a3.5 3.5 0 1 0 .01 0z",
  broken: "M2 6h2.5M7.5 6H10M5 3.5l2 5",
  dash: "M3 6h6",
  triangle: "M6 2.5l4 7H2z",
};

const FILLED: ReadonlySet<Shape> = new Set<Shape>(["pulse", "square"]);

interface StateMarkProps {
  state: string;
  /** Another word than the usual one. */
  label?: string;
  /** Another meaning than the usual one: an open breaker is bad, an open span is not. */
  look?: "working" | "waiting" | "failed" | "ok";
  /** Only the shape is seen; the word is read out and shown as a hint. */
  bare?: boolean;
}

export function StateMark({ state, label, look, bare }: StateMarkProps) {
  const t = useText(text);
  const known: Record<string, string> = t.states;
  const word = label ?? (Object.hasOwn(known, state) ? known[state] : visible(state));
  const key = look === "failed" ? "error" : (look ?? state);
  const [shape, tone] = Object.hasOwn(LOOKS, key) ? (LOOKS[key] ?? ["ring", "plain"]) : (["ring", "plain"] as Look);
  return (
    <span className={`${styles.mark} ${styles[tone]}`} data-state={state} title={bare ? word : undefined}>
      <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true" className={styles[shape]}>
        <path d={DRAWINGS[shape]} fill={FILLED.has(shape) ? "currentColor" : "none"} />
      </svg>
      <span className={bare ? "unseen" : undefined}>{word}</span>
    </span>
  );
}
