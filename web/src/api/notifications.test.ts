import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { LiveNotice } from "./shapes";

const NOTICE: LiveNotice = {
  id: "a",
  firing: 1,
  rule: "waiting",
  title: "An agent waits for you",
  text: "a session",
  at: null,
  session: "0000000000000001",
  span_id: null,
};

/** What all pages of a browser share. */
const shared = { kept: new Map<string, string>() };
const shown: string[] = [];

class FakeNotification {
  static permission: NotificationPermission = "granted";
  static readonly requestPermission = () => Promise.resolve(FakeNotification.permission);

  constructor(readonly title: string) {
    shown.push(title);
  }

  addEventListener(_: string, listener: () => void): void {
    press = listener;
  }

  close(): void {}
}

let press = () => {};

const held = new Set<string>();

/** As `navigator.locks.request`; only locks that may be refused are ever held by others here. */
async function lock(name: string, ...rest: unknown[]): Promise<unknown> {
  const run = rest.at(-1) as (lock: object | null) => unknown;
  if (held.has(name)) return run(null);
  held.add(name);
  try {
    return await run({ name });
  } finally {
    held.delete(name);
  }
}

beforeEach(() => {
  held.clear();
  shared.kept.clear();
  shown.length = 0;
  FakeNotification.permission = "granted";
  vi.stubGlobal("localStorage", {
    getItem: (name: string) => shared.kept.get(name) ?? null,
    setItem: (name: string, value: string) => shared.kept.set(name, value),
    removeItem: (name: string) => shared.kept.delete(name),
  });
  vi.stubGlobal("Notification", FakeNotification);
  vi.stubGlobal("window", { isSecureContext: true, focus: () => {}, setTimeout: () => 0 });
  vi.stubGlobal("document", { hidden: false });
  vi.stubGlobal("navigator", { locks: { request: lock } });
});

afterEach(() => vi.unstubAllGlobals());

/** A page of this browser: the module as it is when it is loaded. */
async function page() {
  vi.resetModules();
  return import("./notifications");
}

const ways = () => ({ open: vi.fn<(notice: LiveNotice) => void>(), inside: vi.fn<(notice: LiveNotice) => void>() });

describe("a notice", () => {
  it("is shown once, by one of several pages", async () => {
    shared.kept.set("agenttrace.notifications", "on");
    const pages = [await page(), await page(), await page()];
    const way = ways();
    for (const each of pages) await each.show(NOTICE, way);
    expect(shown).toEqual([NOTICE.title]);
    expect(way.inside).not.toHaveBeenCalled();
    press();
    expect(way.open).toHaveBeenCalledOnce();
  });

  it("is shown once also where a page does not read yet what another one wrote", async () => {
    shared.kept.set("agenttrace.notifications", "on");
    const pages = [await page(), await page()];
    vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => {}, removeItem: () => {} });
    for (const each of pages) await each.show(NOTICE, ways());
    expect(shown).toEqual([NOTICE.title]);
  });

  it("appears inside a visible page where the user did not ask for more", async () => {
    const [hidden, seen] = [await page(), await page()];
    const way = ways();
    vi.stubGlobal("document", { hidden: true });
    await hidden.show(NOTICE, way);
    expect(way.inside).not.toHaveBeenCalled();
    vi.stubGlobal("document", { hidden: false });
    await seen.show(NOTICE, way);
    await hidden.show(NOTICE, way);
    expect(way.inside).toHaveBeenCalledOnce();
    expect(shown).toEqual([]);
  });

  it("asks for the permission only where the user wants it", async () => {
    FakeNotification.permission = "default";
    const ask = vi.spyOn(FakeNotification, "requestPermission");
    const one = await page();
    expect(one.notifications.value).toBe("ask");
    await one.show(NOTICE, ways());
    expect(ask).not.toHaveBeenCalled();
    ask.mockImplementation(() => {
      FakeNotification.permission = "granted";
      return Promise.resolve("granted" as const);
    });
    await one.switchNotifications(true);
    expect(one.notifications.value).toBe("on");
    await one.switchNotifications(false);
    expect(one.notifications.value).toBe("off");
  });

  it("is forgotten after many others", async () => {
    const { afterShowing } = await page();
    let ids: string[] = [];
    for (let number = 0; number < 300; number += 1) ids = afterShowing(ids, String(number)) ?? ids;
    expect(ids.length).toBe(200);
    expect(afterShowing(ids, "299")).toBeNull();
  });
});
