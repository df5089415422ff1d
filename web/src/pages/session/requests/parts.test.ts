import { describe, expect, it } from "vitest";

import type { RequestRow } from "../../../api/shapes";
import { commonSource, knownParts, largest, PARTS, sizeOf, streamsOf } from "./parts";

function row(stream: string, parts: Record<string, number>): RequestRow {
  return {
    call: 1,
    at: null,
    stream,
    span_id: null,
    model: null,
    purpose: null,
    known_from: "conversation",
    parts,
    unknown_parts: [],
    characters: Object.values(parts).reduce((sum, size) => sum + size, 0),
    messages: null,
    messages_not_in_log: 0,
    input_tokens: null,
    cache_read_tokens: null,
    cache_write_tokens: null,
    output_tokens: null,
    cache_lost_tokens: 0,
    causes: [],
    changes: [],
  };
}

describe("parts of a context", () => {
  it("draws every character once, and tells unknown from empty", () => {
    const one = row("main", { context: 1, files: 2, results: 4, user: 8, assistant: 16, arguments: 32, thinking: 0 });
    expect(PARTS.reduce((sum, part) => sum + (sizeOf(one, part) ?? 0), 0)).toBe(one.characters);
    expect(sizeOf(one, "system")).toBeNull();
    expect(sizeOf(one, "thinking")).toBe(0);
    expect(knownParts([one, row("main", {})])).toEqual(["context", "files", "results", "user", "assistant", "thinking"]);
  });

  it("lists the largest cache breaks in their order", () => {
    const rows = [5, 1, 9, 7].map((lost, at) => ({ ...row("main", {}), call: at, cache_lost_tokens: lost }));
    expect(largest(rows, 2).map((each) => each.call)).toEqual([2, 3]);
    expect(largest(rows, 9)).toEqual(rows);
  });

  it("lists the main agent first", () => {
    expect(streamsOf([row("a1", {}), row("main", {}), row("a1", {})])).toEqual(["main", "a1"]);
  });
});

describe("where sizes are known from", () => {
  const from = (...sources: RequestRow["known_from"][]) => commonSource(sources.map((known_from) => ({ ...row("main", {}), known_from })));

  it("is said once if it is the same for all calls, and for each call otherwise", () => {
    expect(from("request", "request")).toBe("request");
    expect(from("conversation", "usage", "conversation")).toBeNull();
    expect(from()).toBeNull();
  });
});
