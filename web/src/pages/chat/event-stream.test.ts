import { describe, expect, it } from "vitest";

import type { StreamEvent } from "./event-stream";
import { EventReader, eventsOf } from "./event-stream";

/** Numbers that look random and are the same each time. */
function dice(seed: number): (sides: number) => number {
  let state = seed * 2_654_435_761 + 1;
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

const PIECES = ["您好", "👩‍💻", "a", " ", ": x", "é", "\\n", "data: ", "🎱台费", "\u2028", ""];

function anyEvents(roll: (sides: number) => number): StreamEvent[] {
  return Array.from({ length: roll(8) }, () => ({
    name: ["message", "done", "error"][roll(3)] ?? "message",
    data: Array.from({ length: 1 + roll(3) }, () =>
      Array.from({ length: roll(6) }, () => PIECES[roll(PIECES.length)]).join(""),
    ).join("\n"),
  }));
}

/** The events on the wire, with any line end the standard allows, and heartbeats in between. */
function written(events: readonly StreamEvent[], roll: (sides: number) => number): Uint8Array {
  const end = ["\n", "\r\n", "\r"][roll(3)] ?? "\n";
  const lines = events.flatMap((event) => [
    ...(roll(3) ? [] : [": ping", ""]),
    `event: ${event.name}`,
    ...event.data.split("\n").map((line) => `data: ${line}`),
    "",
  ]);
  // A last comment, because a carriage return at the very end may still be half of a line end.
  return new TextEncoder().encode([...lines, ": end", "", ""].join(end));
}

function cut(bytes: Uint8Array, roll: (sides: number) => number): Uint8Array[] {
  const parts: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    const next = Math.min(at + roll(7), bytes.length);
    parts.push(bytes.slice(at, next));
    at = next;
  }
  return parts;
}

describe("a stream of events", () => {
  it("gives the same events however its bytes are cut", () => {
    for (let seed = 0; seed < 500; seed += 1) {
      const roll = dice(seed);
      const events = anyEvents(roll);
      const reader = new EventReader();
      expect(cut(written(events, roll), roll).flatMap((part) => reader.feed(part))).toEqual(events);
    }
  });

  it("gives them byte by byte, also inside a character", () => {
    const event = { name: "message", data: '{"content":"您好 👩‍💻"}' };
    const reader = new EventReader();
    const bytes = [...new TextEncoder().encode(`event: message\ndata: ${event.data}\n\n`)];
    expect(bytes.flatMap((byte) => reader.feed(Uint8Array.of(byte)))).toEqual([event]);
  });

  it("gives no event that is not complete, and none without data", () => {
    const reader = new EventReader();
    const feed = (text: string) => reader.feed(new TextEncoder().encode(text));
    expect(feed("event: message\n\n: ping\n\nevent: done\ndata: {}")).toEqual([]);
    expect(feed("\n")).toEqual([]);
    expect(feed("\n")).toEqual([{ name: "done", data: "{}" }]);
  });

  it("is heard to its end from an answer, and let go where nobody listens any more", async () => {
    const bytes = new TextEncoder().encode("data: 1\n\ndata: 2\n\n");
    let cancelled = false;
    const open = () =>
      new Response(
        new ReadableStream<Uint8Array>({
          pull: (controller) => controller.enqueue(bytes),
          cancel: () => {
            cancelled = true;
          },
        }),
      );
    const heard: string[] = [];
    for await (const event of eventsOf(open())) {
      heard.push(event.data);
      if (heard.length === 3) break;
    }
    expect(heard).toEqual(["1", "2", "1"]);
    expect(cancelled).toBe(true);
    const all: string[] = [];
    for await (const event of eventsOf(new Response("data: a\n\ndata: b\n\n"))) all.push(event.data);
    expect(all).toEqual(["a", "b"]);
  });
});
