import { describe, expect, it } from "vitest";

import type { Source, Surroundings } from "./live";
import { LiveStream, pause } from "./live";

class FakeSource implements Source {
  closed = false;
  private readonly heard = new Map<string, (event: MessageEvent<string>) => void>();

  constructor(readonly url: string) {}

  addEventListener(name: string, listener: (event: MessageEvent<string>) => void): void {
    this.heard.set(name, listener);
  }

  close(): void {
    this.closed = true;
  }

  say(name: string, data: object = {}): void {
    this.heard.get(name)?.({ data: JSON.stringify(data) } as MessageEvent<string>);
  }
}

/** An environment in which time passes only on request. */
class World implements Surroundings {
  readonly sources: FakeSource[] = [];
  private timers: { at: number; run: () => void }[] = [];
  private now = 0;

  readonly open = (url: string): Source => {
    const source = new FakeSource(url);
    this.sources.push(source);
    return source;
  };

  readonly later = (ms: number, run: () => void): (() => void) => {
    const timer = { at: this.now + ms, run };
    this.timers.push(timer);
    return () => {
      this.timers = this.timers.filter((other) => other !== timer);
    };
  };

  readonly random = (): number => 1;

  pass(ms: number): void {
    const end = this.now + ms;
    for (;;) {
      const due = this.timers.filter((timer) => timer.at <= end).toSorted((a, b) => a.at - b.at)[0];
      if (!due) break;
      this.now = due.at;
      this.timers = this.timers.filter((timer) => timer !== due);
      due.run();
    }
    this.now = end;
  }

  get last(): FakeSource {
    const source = this.sources.at(-1);
    if (!source) throw new Error("nothing was opened");
    return source;
  }

  get unclosed(): FakeSource[] {
    return this.sources.filter((source) => !source.closed);
  }
}

function started(): { world: World; stream: LiveStream } {
  const world = new World();
  const stream = new LiveStream(world);
  stream.start();
  return { world, stream };
}

describe("pauses", () => {
  it("double up to a limit, and are spread below it", () => {
    expect([1, 2, 3, 4].map((failures) => pause(failures, 1))).toEqual([400, 800, 1600, 3200]);
    expect(pause(50, 1)).toBe(5000);
    expect(pause(1, 0)).toBe(200);
  });
});

describe("the stream", () => {
  it("begins without a cursor and is connected at hello", () => {
    const { world, stream } = started();
    expect(world.last.url).toBe("/api/v1/live");
    expect(stream.state.value).toBe("connecting");
    world.last.say("hello", { cursor: 7, version: "1" });
    expect(stream.state.value).toBe("connected");
    expect(stream.version.value).toBe("1");
  });

  it("goes on after the last thing it told, not after what hello promised", () => {
    const { world } = started();
    world.last.say("hello", { cursor: 7, version: "1" });
    world.last.say("sessions", { cursor: 9, rows: [] });
    world.last.say("error");
    world.pass(400);
    expect(world.last.url).toBe("/api/v1/live?after=9");
    world.last.say("hello", { cursor: 30, version: "1" });
    world.last.say("error");
    world.pass(400);
    expect(world.last.url).toBe("/api/v1/live?after=9");
  });

  it("asks for the notices that it missed, also where hello came and they did not", () => {
    const { world } = started();
    world.last.say("hello", { cursor: 7, version: "1", notice: 3 });
    world.last.say("notices", { cursor: 7, notice: 5, items: [] });
    world.last.say("error");
    world.pass(400);
    expect(world.last.url).toBe("/api/v1/live?after=7&notices=5");
    world.last.say("hello", { cursor: 7, version: "1", notice: 9 });
    world.last.say("error");
    world.pass(400);
    expect(world.last.url).toBe("/api/v1/live?after=7&notices=5");
    // Another store counts from the start.
    world.last.say("hello", { cursor: 7, version: "1", notice: 1 });
    world.last.say("error");
    world.pass(400);
    expect(world.last.url).toBe("/api/v1/live?after=7&notices=1");
  });

  it("holds one connection at a time, whatever happens", () => {
    const { world, stream } = started();
    world.last.say("error");
    world.pass(400);
    stream.start();
    stream.watch("a", 3);
    world.pass(100);
    expect(world.unclosed).toHaveLength(1);
    stream.stop();
    expect(world.unclosed).toHaveLength(0);
    world.pass(60_000);
    expect(world.unclosed).toHaveLength(0);
  });

  it("waits longer after each failure and at last says it is offline", () => {
    const { world, stream } = started();
    const states = [];
    for (const wait of [400, 800, 1600]) {
      world.last.say("error");
      states.push(stream.state.value);
      const before = world.sources.length;
      world.pass(wait - 1);
      expect(world.sources).toHaveLength(before);
      world.pass(1);
      expect(world.sources).toHaveLength(before + 1);
    }
    expect(states).toEqual(["reconnecting", "reconnecting", "offline"]);
    world.last.say("hello", { cursor: 1, version: "1" });
    expect(stream.state.value).toBe("connected");
    world.last.say("error");
    expect(stream.state.value).toBe("reconnecting");
  });

  it("takes a connection that never greets for a lost one", () => {
    const { world, stream } = started();
    world.pass(10_000);
    expect(stream.state.value).toBe("reconnecting");
    world.pass(400);
    expect(world.sources).toHaveLength(2);
  });

  it("ignores what comes late from a connection it has given up", () => {
    const { world, stream } = started();
    const old = world.last;
    stream.start();
    const heard: number[] = [];
    stream.listen({ sessions: (news) => heard.push(news.cursor) });
    old.say("sessions", { cursor: 5, rows: [] });
    old.say("error");
    expect(heard).toEqual([]);
    expect(world.unclosed).toEqual([world.last]);
  });

  it("watches a session from the cursor of what the page has loaded", () => {
    const { world, stream } = started();
    world.last.say("hello", { cursor: 50, version: "1" });
    stream.watch("abc", 40);
    world.pass(100);
    expect(world.last.url).toBe("/api/v1/live?session=abc&after=40");
    stream.watch(null);
    stream.watch("def", 60);
    world.pass(100);
    expect(world.last.url).toBe("/api/v1/live?session=def&after=40");
    expect(world.sources).toHaveLength(3);
  });

  it("tells listeners each kind of news, and no more after they have left", () => {
    const { world, stream } = started();
    const heard: string[] = [];
    const leave = stream.listen({
      sessions: () => heard.push("sessions"),
      timeline: () => heard.push("timeline"),
      reset: () => heard.push("reset"),
    });
    for (const name of ["sessions", "timeline", "reset"]) world.last.say(name, { cursor: 1 });
    leave();
    world.last.say("sessions", { cursor: 2 });
    expect(heard).toEqual(["sessions", "timeline", "reset"]);
  });

  it("loads everything again when the store is another one with a smaller cursor", () => {
    const { world, stream } = started();
    const resets: number[] = [];
    stream.listen({ reset: ({ cursor }) => resets.push(cursor) });
    world.last.say("hello", { cursor: 100, version: "1" });
    world.last.say("error");
    world.pass(400);
    world.last.say("hello", { cursor: 3, version: "1" });
    expect(resets).toEqual([3]);
    world.last.say("error");
    world.pass(400);
    expect(world.last.url).toBe("/api/v1/live?after=3");
  });
});
