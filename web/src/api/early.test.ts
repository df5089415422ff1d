import { afterEach, expect, test, vi } from "vitest";

import { requestEarly, takeEarly } from "./early";

afterEach(() => void vi.unstubAllGlobals());

function answering(answer: () => Promise<Response>) {
  vi.stubGlobal("fetch", vi.fn(answer));
}

test("an early answer is used once", async () => {
  answering(async () => new Response("1"));
  requestEarly("/a");
  expect(await (await takeEarly("/a"))?.text()).toBe("1");
  expect(await takeEarly("/a")).toBeNull();
  expect(await takeEarly("/b")).toBeNull();
});

test("errors are left to the request that follows", async () => {
  answering(async () => new Response("", { status: 401 }));
  requestEarly("/a");
  expect(await takeEarly("/a")).toBeNull();
  answering(() => Promise.reject(new TypeError("away")));
  requestEarly("/a");
  expect(await takeEarly("/a")).toBeNull();
});

test("an old answer is not used", async () => {
  answering(async () => new Response("1"));
  const now = vi.spyOn(performance, "now").mockReturnValue(0);
  requestEarly("/a");
  now.mockReturnValue(5001);
  expect(await takeEarly("/a")).toBeNull();
  now.mockRestore();
});
