import { describe, expect, it } from "vitest";

import type { Change, Turn } from "./turns";
import { changedTurns } from "./turns";

const after = (changes: readonly Change[]) => changes.reduce<readonly Turn[]>(changedTurns, []);
const begin = (id: number, conversation: number | null = null): Change => ({ kind: "begin", id, said: `q${id}`, conversation, now: 0 });
const hear = (id: number, name: string, data: unknown): Change => ({
  kind: "hear",
  id,
  event: { name, data: typeof data === "string" ? data : JSON.stringify(data) },
  now: 9,
});
const done = (id: number, conversation: number) =>
  hear(id, "done", { conversation_id: conversation, session_id: "conv", tokens_used: 110, estimated: true });

describe("a turn of the chat", () => {
  it("grows by its messages and ends with what they cost", () => {
    const [turn] = after([begin(1), hear(1, "message", { content: "您" }), hear(1, "message", { content: "好" }), done(1, 7)]);
    expect(turn).toMatchObject({ answer: "您好", state: "done", conversation: 7, session: "conv", tokens: 110, estimated: true });
  });

  it("keeps what the user was told where it failed, and what had come until then", () => {
    const told = { code: "timeout", message: "AI 响应超时" };
    const [turn] = after([begin(1), hear(1, "message", { content: "a" }), hear(1, "error", told)]);
    expect(turn).toMatchObject({ answer: "a", state: "refused", refusal: told });
  });

  it("is not changed by anything after its end", () => {
    const ends: Change[] = [
      done(1, 7),
      hear(1, "error", { code: "x", message: "y" }),
      { kind: "refuse", id: 1, refusal: { code: "x", message: "y" }, now: 1 },
      { kind: "end", id: 1, state: "stopped", now: 1 },
    ];
    for (const end of ends) {
      const over = after([begin(1), end]);
      for (const late of [...ends, hear(1, "message", { content: "late" })]) expect(changedTurns(over, late)).toBe(over);
    }
  });

  it("is not disturbed by events that are not understood", () => {
    const [turn] = after([begin(1), hear(1, "message", "{"), hear(1, "message", "null"), hear(1, "other", {}), done(1, 7)]);
    expect(turn).toMatchObject({ answer: "", state: "done" });
  });

  it("gives its conversation to what was refused before the conversation had a number", () => {
    const refuse: Change = { kind: "refuse", id: 1, refusal: { code: "rate_limited", message: "请求过于频繁" }, now: 1 };
    const turns = after([begin(1), refuse, begin(2), done(2, 7)]);
    expect(turns.map((turn) => turn.conversation)).toEqual([7, 7]);
  });

  it("of another conversation stays with that one", () => {
    const turns = after([begin(1), done(1, 7), begin(2), { kind: "end", id: 2, state: "stopped", now: 1 }, begin(3, 7), done(3, 7)]);
    expect(turns.map((turn) => turn.conversation)).toEqual([7, null, 7]);
    expect(changedTurns(turns, { kind: "forget" }).map((turn) => turn.id)).toEqual([1, 3]);
  });
});
