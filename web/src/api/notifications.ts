/**
 * Notifications of rules through the browser: asked for by the user, each shown once, in one of all open pages.
 *
 * Every page hears of a notice through its stream. A lock of its id makes one of them first; the ids that were shown are
 * remembered, so that a page that comes later, or connects again, shows none a second time. A hidden page gives up its
 * connection; where notifications are on, one page keeps it: the one that holds the other lock.
 */
import { remember, remembered } from "../memory";
import { Store } from "../store";
import type { LiveNotice } from "./shapes";
import { watching } from "./use-live";

export type NotificationState = "unsupported" | "ask" | "denied" | "on" | "off";

const WISH = "notifications";
const SHOWN = "notices";
const SHOWN_MOST = 200;
const CLAIM_LOCK = "agenttrace.notices";
/** A notice stays claimed for this long: what one page remembers, another page may read a moment later. */
const CLAIMED_FOR = 10_000;
const WATCH_LOCK = "agenttrace.watching";

export const notifications = new Store<NotificationState>(present());

function present(): NotificationState {
  if (typeof Notification === "undefined" || !window.isSecureContext) return "unsupported";
  if (Notification.permission === "default") return "ask";
  if (Notification.permission === "denied") return "denied";
  return remembered(WISH) === "on" ? "on" : "off";
}

/** Switches them; the browser asks the user the first time. */
export async function switchNotifications(on: boolean): Promise<void> {
  remember(WISH, on ? "on" : "off");
  if (on && present() === "ask") await Notification.requestPermission();
  notifications.set(present());
  watch();
}

let release: (() => void) | null = null;

/** Stands in line for being the page that keeps its connection while it is hidden. */
export function watch(): void {
  if (notifications.value !== "on") {
    release?.();
    release = null;
    return;
  }
  if (release !== null) return;
  const locks: LockManager | undefined = navigator.locks;
  if (!locks) return;
  const given = new AbortController();
  release = () => given.abort();
  void locks
    .request(WATCH_LOCK, { signal: given.signal }, async () => {
      watching.set(true);
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      watching.set(false);
    })
    .catch(() => undefined);
}

/** The ids after this one was shown; null if it was before. */
export function afterShowing(shown: readonly string[], id: string): string[] | null {
  return shown.includes(id) ? null : [...shown, id].slice(-SHOWN_MOST);
}

function shownBefore(): string[] {
  try {
    const kept: unknown = JSON.parse(remembered(SHOWN) ?? "[]");
    return Array.isArray(kept) ? kept.filter((id) => typeof id === "string") : [];
  } catch {
    return [];
  }
}

/** Whether this page is the first one to show a notice. */
async function isFirst(id: string): Promise<boolean> {
  const take = () => {
    const next = afterShowing(shownBefore(), id);
    if (next) remember(SHOWN, JSON.stringify(next));
    return next !== null;
  };
  const locks: LockManager | undefined = navigator.locks;
  if (!locks) return take();
  return await new Promise((resolve) => {
    void locks.request(`${CLAIM_LOCK}.${id}`, { ifAvailable: true }, async (lock) => {
      const first = lock !== null && (await locks.request(CLAIM_LOCK, take));
      resolve(first);
      if (first) await new Promise((ended) => window.setTimeout(ended, CLAIMED_FOR));
    });
  });
}

interface Ways {
  /** Called when the user clicks a notification. */
  open: (notice: LiveNotice) => void;
  /** Shows it inside the page. */
  inside: (notice: LiveNotice) => void;
}

/** Shows a notice, unless another page does; inside the page only where it is seen. */
export async function show(notice: LiveNotice, ways: Ways): Promise<void> {
  const outside = notifications.value === "on";
  if (!outside && document.hidden) return;
  if (!(await isFirst(notice.id))) return;
  if (!outside) return ways.inside(notice);
  try {
    const shown = new Notification(notice.title, { body: notice.text, tag: notice.id });
    shown.addEventListener("click", () => {
      window.focus();
      shown.close();
      ways.open(notice);
    });
  } catch {
    // Browsers of phones have the permission but show notifications of service workers only.
    ways.inside(notice);
  }
}
