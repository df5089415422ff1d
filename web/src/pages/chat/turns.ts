/** Messages and answers since the page was opened. */
import type { StreamEvent } from "./event-stream";

/** Why there is no answer: the message for users, and the code. */
export interface Refusal {
  code: string;
  message: string;
}

export interface Turn {
  id: number;
  said: string;
  answer: string;
  /** `stopped`: by us; `broken`: the stream ended without an end. */
  state: "answering" | "done" | "stopped" | "refused" | "broken";
  /** Null until the server has sent it. */
  conversation: number | null;
  session: string | null;
  tokens: number | null;
  estimated: boolean;
  refusal: Refusal | null;
  began: number;
  ended: number | null;
}

export type Change =
  | { kind: "begin"; id: number; said: string; conversation: number | null; now: number }
  | { kind: "hear"; id: number; event: StreamEvent; now: number }
  | { kind: "refuse"; id: number; refusal: Refusal; now: number }
  | { kind: "end"; id: number; state: "stopped" | "broken"; now: number }
  | { kind: "forget" };

/** The turns after a change. */
export function changedTurns(turns: readonly Turn[], change: Change): readonly Turn[] {
  if (change.kind === "forget") return turns.filter((turn) => turn.conversation !== null);
  if (change.kind === "begin") return [...turns, begun(change)];
  const before = turns.find((turn) => turn.id === change.id);
  // Whatever comes after the end of a turn changes nothing.
  if (!before || before.state !== "answering") return turns;
  const after = next(before, change);
  return turns.map((turn) => {
    if (turn === before) return after;
    // A refusal before the conversation had an id belongs to it.
    return turn.conversation === null && before.conversation === null ? { ...turn, conversation: after.conversation } : turn;
  });
}

function begun({ id, said, conversation, now }: Extract<Change, { kind: "begin" }>): Turn {
  return {
    id,
    said,
    answer: "",
    state: "answering",
    conversation,
    session: null,
    tokens: null,
    estimated: false,
    refusal: null,
    began: now,
    ended: null,
  };
}

function next(turn: Turn, change: Exclude<Change, { kind: "begin" | "forget" }>): Turn {
  if (change.kind === "refuse") return { ...turn, state: "refused", refusal: change.refusal, ended: change.now };
  if (change.kind === "end") return { ...turn, state: change.state, ended: change.now };
  return heard(turn, change.event, change.now);
}

/** The turn after an event of the stream. */
function heard(turn: Turn, event: StreamEvent, now: number): Turn {
  const data = fieldsOf(event.data);
  if (event.name === "message") return { ...turn, answer: turn.answer + textOf(data.content) };
  if (event.name === "error") {
    return { ...turn, state: "refused", refusal: { code: textOf(data.code), message: textOf(data.message) }, ended: now };
  }
  if (event.name !== "done") return turn;
  return {
    ...turn,
    state: "done",
    conversation: conversationOf(event) ?? turn.conversation,
    session: textOf(data.session_id) || null,
    tokens: typeof data.tokens_used === "number" ? data.tokens_used : null,
    estimated: data.estimated === true,
    ended: now,
  };
}

/** The id of the conversation after this event; null if the event has none. */
export function conversationOf(event: StreamEvent): number | null {
  const number = event.name === "done" ? fieldsOf(event.data).conversation_id : null;
  return typeof number === "number" ? number : null;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function fieldsOf(json: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
