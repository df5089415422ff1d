/** The live stream in components. */
import { useEffect, useRef, useSyncExternalStore } from "react";

import { Store } from "../store";
import type { LiveListener, LiveState } from "./live";
import { LiveStream } from "./live";
import type { LiveNotices, LiveTexts } from "./shapes";

/** A hidden page keeps its connection this long, so that switching tabs costs nothing. */
const HIDDEN_FOR = 30_000;

export const live = new LiveStream({
  open: (url) => new EventSource(url),
  later: (ms, run) => {
    const timer = window.setTimeout(run, ms);
    return () => window.clearTimeout(timer);
  },
  random: Math.random,
});

/** Whether this page keeps its connection while it is hidden: one of all open pages does, for notifications. */
export const watching = new Store(false);

/** Keeps the stream open while the component is mounted and the page is visible. */
export function useLiveConnection(on: boolean): void {
  useEffect(() => {
    if (!on) return undefined;
    let hiding = 0;
    const look = () => {
      window.clearTimeout(hiding);
      if (document.hidden && !watching.value) hiding = window.setTimeout(live.stop, HIDDEN_FOR);
      else if (live.state.value !== "connected") live.start();
    };
    live.start();
    const unwatch = watching.subscribe(look);
    document.addEventListener("visibilitychange", look);
    window.addEventListener("online", look);
    return () => {
      window.clearTimeout(hiding);
      unwatch();
      document.removeEventListener("visibilitychange", look);
      window.removeEventListener("online", look);
      live.stop();
    };
  }, [on]);
}

export function useLiveState(): LiveState {
  return useSyncExternalStore(live.state.subscribe, live.state.read);
}

export function useLiveVersion(): string | null {
  return useSyncExternalStore(live.version.subscribe, live.version.read);
}

/** Calls these functions with what changes; they may be new ones at each rendering. */
export function useLive(
  onSessions?: LiveListener["sessions"],
  onTimeline?: LiveListener["timeline"],
  onReset?: LiveListener["reset"],
): void {
  const latest = useRef<LiveListener>({});
  useEffect(() => {
    latest.current = { sessions: onSessions, timeline: onTimeline, reset: onReset };
  });
  useEffect(
    () =>
      live.listen({
        sessions: (news) => latest.current.sessions?.(news),
        timeline: (news) => latest.current.timeline?.(news),
        reset: (news) => latest.current.reset?.(news),
      }),
    [],
  );
}

/** Calls this function with the texts of changed spans; the function may differ at each rendering. */
export function useLiveTexts(onTexts: (news: LiveTexts) => void): void {
  const latest = useRef(onTexts);
  useEffect(() => {
    latest.current = onTexts;
  });
  useEffect(() => live.listen({ texts: (news) => latest.current(news) }), []);
}

/** Calls this function with notifications of rules; the function may differ at each rendering. */
export function useLiveNotices(onNotices: (news: LiveNotices) => void): void {
  const latest = useRef(onNotices);
  useEffect(() => {
    latest.current = onNotices;
  });
  useEffect(() => live.listen({ notices: (news) => latest.current(news) }), []);
}

/**
 * Watches a session while the component is there; null watches none. `after` is the cursor of the timeline that is
 * loaded: give the key only once it is, and nothing is missing between the two.
 */
export function useLiveSession(key: string | null, after?: number): void {
  const from = useRef(after);
  useEffect(() => {
    from.current = after;
  }, [after]);
  useEffect(() => {
    live.watch(key, from.current);
    return () => live.watch(null);
  }, [key]);
}
