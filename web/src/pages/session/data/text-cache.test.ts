import { describe, expect, it } from "vitest";

import type { Texts } from "../../../api/shapes";
import { TextCache } from "./text-cache";

function said(ids: readonly string[], text: string): Texts {
  return { spans: Object.fromEntries(ids.map((id) => [id, [{ kind: "text", text, chars: text.length, index: 0, call: null, media: null }]])) };
}

class World {
  asked: (readonly string[])[] = [];
  version = 1;
  fails = false;
  private runs: (() => void)[] = [];
  private answers: (() => void)[] = [];

  readonly load = (ids: readonly string[]): Promise<Texts> => {
    this.asked.push(ids);
    const says = `v${this.version}`;
    const fails = this.fails;
    return new Promise((resolve, reject) => {
      this.answers.push(() => {
        if (fails) reject(new Error("away"));
        else resolve(said(ids, says));
      });
    });
  };

  readonly later = (_: number, run: () => void): void => {
    this.runs.push(run);
  };

  async settle(answer = true): Promise<void> {
    for (const run of this.runs.splice(0)) run();
    if (answer) for (const give of this.answers.splice(0)) give();
    for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
  }
}

function ids(from: number, to: number): string[] {
  return Array.from({ length: to - from }, (_, index) => `s${from + index}`);
}

describe("TextCache", () => {
  it("asks once for what is looked at and tells those who wait", async () => {
    const world = new World();
    const cache = new TextCache(world.load, world.later);
    let told = 0;
    cache.subscribe("s1", () => (told += 1));
    cache.want(["s1", "s2"]);
    cache.want(["s1", "s2"]);
    await world.settle();
    cache.want(["s2", "s1"]);
    await world.settle();
    expect(world.asked).toEqual([["s1", "s2"]]);
    expect(cache.read("s1")?.[0]?.text).toBe("v1");
    expect(told).toBe(1);
  });

  it("never asks for what was scrolled past, and for the rest in batches", async () => {
    const world = new World();
    const cache = new TextCache(world.load, world.later);
    for (let at = 0; at < 1000; at += 10) cache.want(ids(at, at + 100));
    while (world.asked.flat().length < 100) await world.settle();
    expect(world.asked.flat().sort()).toEqual(ids(990, 1090).sort());
    expect(Math.max(...world.asked.map((batch) => batch.length))).toBeLessThanOrEqual(40);
  });

  it("shows the former text until a changed span is here anew, also where it changed while it was loaded", async () => {
    const world = new World();
    const cache = new TextCache(world.load, world.later);
    cache.want(["s1"]);
    await world.settle(false);
    cache.drop(["s1"]);
    world.version = 2;
    await world.settle();
    expect(cache.read("s1")?.[0]?.text).toBe("v1");
    await world.settle();
    expect(cache.read("s1")?.[0]?.text).toBe("v2");
    expect(world.asked).toHaveLength(2);
  });

  it("takes what comes unasked, and does not ask for it", async () => {
    const world = new World();
    const cache = new TextCache(world.load, world.later);
    let told = 0;
    cache.subscribe("s1", () => (told += 1));
    cache.want(["s1"]);
    await world.settle();
    cache.drop(["s1", "s2"]);
    cache.put(said(["s1", "s2"], "pushed"));
    cache.want(["s1", "s2"]);
    await world.settle();
    expect(cache.read("s1")?.[0]?.text).toBe("pushed");
    expect(cache.read("s2")?.[0]?.text).toBe("pushed");
    expect(told).toBe(2);
    expect(world.asked).toEqual([["s1"]]);
  });

  it("asks once more where an answer under way may be older than what came unasked", async () => {
    const world = new World();
    const cache = new TextCache(world.load, world.later);
    cache.want(["s1"]);
    await world.settle(false);
    cache.drop(["s1"]);
    cache.put(said(["s1"], "pushed"));
    world.version = 2;
    await world.settle();
    await world.settle();
    expect(cache.read("s1")?.[0]?.text).toBe("v2");
    expect(world.asked).toHaveLength(2);
  });

  it("asks again after a failure, as long as somebody looks", async () => {
    const world = new World();
    world.fails = true;
    const cache = new TextCache(world.load, world.later);
    cache.want(["s1"]);
    await world.settle();
    expect(cache.read("s1")).toBeUndefined();
    world.fails = false;
    await world.settle(false);
    await world.settle();
    expect(cache.read("s1")?.[0]?.text).toBe("v1");
    expect(world.asked).toEqual([["s1"], ["s1"]]);
    world.fails = true;
    cache.want(["s2"]);
    await world.settle();
    cache.want([]);
    await world.settle();
    expect(world.asked).toHaveLength(3);
  });

  it("keeps a bounded number of texts, and always those that are looked at", async () => {
    const world = new World();
    const cache = new TextCache(world.load, world.later);
    for (let at = 0; at < 4000; at += 40) {
      cache.want(["first", ...ids(at, at + 39)]);
      await world.settle();
      await world.settle();
    }
    expect(cache.read("s0")).toBeUndefined();
    expect(cache.read("first")).toBeDefined();
    expect(cache.read("s3998")).toBeDefined();
  });
});
