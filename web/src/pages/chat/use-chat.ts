/** Asking, hearing the answer as it comes, and stopping it. */
import { useCallback, useEffect, useReducer, useRef } from "react";

import { ProblemError, UnreachableError, send } from "../../api/client";
import { eventsOf } from "./event-stream";
import type { Refusal, Turn } from "./turns";
import { changedTurns, conversationOf } from "./turns";

/** Where a question is asked. */
export interface Place {
  site_id: number;
  entry: string;
  target_id: string | null;
  conversation_id: number | null;
}

export interface Chat {
  turns: readonly Turn[];
  answering: boolean;
  ask: (message: string, place: Place) => void;
  stop: () => void;
  /** Forgets what belongs to no conversation. */
  leave: () => void;
}

/** `onNumber` is called with the id of the conversation for each answer. */
export function useChat(onNumber: (conversation: number) => void): Chat {
  const [turns, change] = useReducer(changedTurns, []);
  const count = useRef(0);
  const under = useRef<AbortController | null>(null);
  const tell = useRef(onNumber);
  useEffect(() => {
    tell.current = onNumber;
  });
  const stop = useCallback(() => under.current?.abort(), []);
  // Leaving the page cancels the answer.
  useEffect(() => stop, [stop]);
  const ask = useCallback((message: string, place: Place) => {
    const id = (count.current += 1);
    const control = new AbortController();
    under.current = control;
    change({ kind: "begin", id, said: message, conversation: place.conversation_id, now: Date.now() });
    const hear = async () => {
      const response = await send("/chat", { message, ...place }, control.signal);
      for await (const event of eventsOf(response)) {
        const number = conversationOf(event);
        // Before the turn gets it: the page shows turns of the conversation that it is in.
        if (number !== null) tell.current(number);
        change({ kind: "hear", id, event, now: Date.now() });
      }
      // After a proper end this changes nothing any more.
      change({ kind: "end", id, state: "broken", now: Date.now() });
    };
    hear().catch((error: unknown) => {
      const now = Date.now();
      const refusal = control.signal.aborted ? null : refusalOf(error);
      if (refusal) change({ kind: "refuse", id, refusal, now });
      else change({ kind: "end", id, state: control.signal.aborted ? "stopped" : "broken", now });
    });
  }, []);
  const leave = useCallback(() => {
    stop();
    change({ kind: "forget" });
  }, [stop]);
  return { turns, answering: turns.some((turn) => turn.state === "answering"), ask, stop, leave };
}

const CODES: Record<number, string> = { 403: "forbidden", 404: "no_conversation", 422: "invalid", 429: "rate_limited", 503: "unavailable" };

/** The answer of the server before a stream started; null if the connection was lost. */
function refusalOf(error: unknown): Refusal | null {
  if (error instanceof ProblemError) return { code: CODES[error.status] ?? `http_${error.status}`, message: error.detail };
  if (error instanceof UnreachableError) return { code: "unreachable", message: "" };
  return null;
}
