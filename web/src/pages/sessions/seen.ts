/**
 * Which sessions have new activity since they were last opened.
 *
 * A visit to the list ends when it was not open for half an hour: going to a session and back, or reloading, is still
 * the same visit, so the marks of the other sessions stay. All moments but `until` are the server's, taken from rows:
 * the clocks of two machines need not agree.
 */
import { useEffect, useSyncExternalStore } from "react";

import { remember, remembered } from "../../memory";
import { Store } from "../../store";

export interface Seen {
  /** Activity up to this time counts as seen; null before the first visit, when nothing is marked. */
  baseline: string | null;
  /** The newest moment that the list has shown. */
  newest: string | null;
  /** When the list was last open, in milliseconds by this browser's clock. */
  until: number;
  /** Times up to which single sessions were seen. */
  sessions: Readonly<Record<string, string>>;
}

/** The part of a row that is used here. */
export interface Marked {
  key: string;
  last_at: string | null;
}

const AWAY = 30 * 60_000;
const MOST_SESSIONS = 500;
const KEPT = "seen";

export const NOTHING_SEEN: Seen = { baseline: null, newest: null, until: 0, sessions: {} };

export function isUnseen(seen: Seen, row: Marked): boolean {
  if (seen.baseline === null || row.last_at === null || row.last_at <= seen.baseline) return false;
  return row.last_at > (seen.sessions[row.key] ?? "");
}

/** A visit starts or continues. */
export function arrived(seen: Seen, now: number): Seen {
  const another = now - seen.until > AWAY && seen.newest !== null;
  return pruned({ ...seen, baseline: another ? seen.newest : seen.baseline, until: now });
}

/** The list shows activity up to this time. */
export function looked(seen: Seen, newest: string | null, now: number): Seen {
  const latest = later(seen.newest, newest);
  return { ...seen, baseline: seen.baseline ?? latest, newest: latest, until: now };
}

/** A session was opened. */
export function opened(seen: Seen, row: Marked): Seen {
  if (row.last_at === null || row.last_at <= (seen.sessions[row.key] ?? "")) return seen;
  return pruned({ ...seen, sessions: { ...seen.sessions, [row.key]: row.last_at } });
}

/** Everything up to this time was seen. */
export function allSeen(seen: Seen, newest: string | null): Seen {
  return pruned({ ...seen, baseline: later(seen.baseline, newest), newest: later(seen.newest, newest) });
}

function later(one: string | null, other: string | null): string | null {
  if (one === null || other === null) return one ?? other;
  return one > other ? one : other;
}

/** Without entries that the baseline covers, and with a limited number of sessions. */
function pruned(seen: Seen): Seen {
  const baseline = seen.baseline ?? "";
  const sessions = Object.entries(seen.sessions)
    .filter(([, at]) => at > baseline)
    .toSorted(([, one], [, other]) => (one > other ? -1 : 1))
    .slice(0, MOST_SESSIONS);
  return { ...seen, sessions: Object.fromEntries(sessions) };
}

/** The stored state; a value of another form is ignored. */
export function readSeen(text: string | null): Seen {
  try {
    const kept = JSON.parse(text ?? "") as Partial<Record<keyof Seen, unknown>> | null;
    const sessions = typeof kept?.sessions === "object" && kept.sessions !== null ? kept.sessions : {};
    return {
      baseline: textOf(kept?.baseline),
      newest: textOf(kept?.newest),
      until: typeof kept?.until === "number" ? kept.until : 0,
      sessions: Object.fromEntries(Object.entries(sessions).filter(([, at]) => typeof at === "string")) as Seen["sessions"],
    };
  } catch {
    return NOTHING_SEEN;
  }
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

const store = new Store<Seen>(readSeen(remembered(KEPT)));

function change(next: Seen): void {
  if (next === store.value) return;
  store.set(next);
  remember(KEPT, JSON.stringify(next));
}

/** Also sessions that were opened in other windows. */
function subscribe(listener: () => void): () => void {
  const elsewhere = (event: StorageEvent) => {
    if (event.key?.endsWith(KEPT)) store.set(readSeen(event.newValue));
  };
  window.addEventListener("storage", elsewhere);
  const leave = store.subscribe(listener);
  return () => {
    window.removeEventListener("storage", elsewhere);
    leave();
  };
}

export function useSeen(): Seen {
  return useSyncExternalStore(subscribe, store.read);
}

export function markSeen(row: Marked): void {
  change(opened(store.value, row));
}

export function markAllSeen(newest: string | null): void {
  change(allSeen(store.value, newest));
}

/** A visit to the list, which shows activity up to `newest`. */
export function useVisit(newest: string | null): void {
  useEffect(() => {
    change(arrived(store.value, Date.now()));
    return () => change({ ...store.value, until: Date.now() });
  }, []);
  useEffect(() => {
    if (newest !== null) change(looked(store.value, newest, Date.now()));
  }, [newest]);
}

/** Marks the session of this page as seen; does nothing while the key is empty. */
export function useSessionSeen(key: string, lastAt: string | null): void {
  useEffect(() => {
    if (key) markSeen({ key, last_at: lastAt });
  }, [key, lastAt]);
}
