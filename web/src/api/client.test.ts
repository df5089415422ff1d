import { afterEach, describe, expect, it, vi } from "vitest";

import { ProblemError, UnreachableError, get, post, whenLoginNeeded } from "./client";
import { afterLogin } from "./visit";

interface Asked {
  url: string;
  headers: Headers;
}

/** A server inside the test: answers in order, and records requests. */
function serving(...answers: (() => Response)[]): Asked[] {
  const asked: Asked[] = [];
  vi.stubGlobal("fetch", (url: string, request: RequestInit) => {
    asked.push({ url, headers: new Headers(request.headers) });
    const answer = answers.shift();
    return answer ? Promise.resolve(answer()) : Promise.reject(new TypeError("Failed to fetch"));
  });
  return asked;
}

const json = (data: object, headers: Record<string, string> = {}) => () => Response.json(data, { headers });
const problem = (status: number, detail: string) => () => Response.json({ title: "T", status, detail }, { status });

afterEach(() => vi.unstubAllGlobals());

describe("get", () => {
  it("sends the tag of what it knows, and gives the same object for 304", async () => {
    const asked = serving(json({ a: 1 }, { ETag: 'W/"x"' }), () => new Response(null, { status: 304 }));
    const first = await get("/known", { q: "1" });
    const second = await get("/known", { q: "1" });
    expect(asked.map(({ url, headers }) => [url, headers.get("If-None-Match")])).toEqual([
      ["/api/v1/known?q=1", null],
      ["/api/v1/known?q=1", 'W/"x"'],
    ]);
    expect(second).toBe(first);
  });

  it("throws what the server says as a problem", async () => {
    serving(problem(404, "Session not found."));
    const error = await get("/gone").catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(ProblemError);
    expect(error).toMatchObject({ status: 404, title: "T", detail: "Session not found." });
  });

  it("tells a server that is away from one that refuses", async () => {
    serving();
    await expect(get("/away")).rejects.toBeInstanceOf(UnreachableError);
    serving(() => new Response("<html>", { status: 502, statusText: "Bad Gateway" }));
    await expect(get("/away")).rejects.toMatchObject({ status: 502, detail: "Bad Gateway" });
  });

  it("asks for a login when one is needed", async () => {
    let needed = 0;
    whenLoginNeeded(() => (needed += 1));
    serving(problem(401, "Log in first."));
    await expect(get("/secret")).rejects.toMatchObject({ status: 401 });
    expect(needed).toBe(1);
  });
});

describe("post", () => {
  it("carries the visitor's token, and gets a new one once where it has become invalid", async () => {
    const asked = serving(
      json({ csrf: "one" }),
      problem(403, "The token is wrong."),
      json({ csrf: "two" }),
      json({ done: true }),
    );
    await expect(post("/jobs/1/cancel")).resolves.toEqual({ done: true });
    expect(asked.map(({ url, headers }) => [url, headers.get("X-CSRF-Token")])).toEqual([
      ["/api/v1/me", null],
      ["/api/v1/jobs/1/cancel", "one"],
      ["/api/v1/me", null],
      ["/api/v1/jobs/1/cancel", "two"],
    ]);
  });

  it("does not repeat what is refused again", async () => {
    serving(problem(403, "Only an admin may."), json({ csrf: "two" }), problem(403, "Only an admin may."));
    await expect(post("/jobs/1/cancel")).rejects.toMatchObject({ detail: "Only an admin may." });
  });
});

describe("the way back after a login", () => {
  it("stays on this console", () => {
    const ways = ["/sessions?q=1", "//evil.example", "/\\evil.example", "https://evil.example", "/login?next=/", ""];
    expect(ways.map(afterLogin)).toEqual(["/sessions?q=1", "/", "/", "/", "/", "/"]);
  });
});
