/** The spans of a session: loaded, and updated while the agent works. */
import { useCallback, useEffect, useReducer, useRef, useState } from "react";

import { get } from "../../../api/client";
import type { Timeline } from "../../../api/shapes";
import { useLive, useLiveSession } from "../../../api/use-live";
import { RollUp } from "../model/roll-up";
import { SpanTable } from "../model/span-table";

/** A snapshot of the spans: a new object after each change, with the same table and sums. */
export interface Spans {
  key: string;
  table: SpanTable;
  sums: RollUp;
  /** False while further pages are loaded. */
  whole: boolean;
}

export interface SpansState {
  spans: Spans | null;
  error: unknown;
  retry: () => void;
}

function merged(before: Spans | null, news: Timeline): Spans {
  const table = before?.table ?? new SpanTable();
  const sums = before?.sums ?? new RollUp(table);
  sums.update(table.merge(news).from);
  return { key: news.session, table, sums, whole: news.next === null };
}

/** Loads all spans, page by page; `show` is called after each page. */
export async function loadSpans(name: string, signal: AbortSignal, show: (spans: Spans) => void): Promise<void> {
  let spans: Spans | null = null;
  let cursor: string | null = null;
  do {
    const page: Timeline = await get<Timeline>(`/sessions/${name}/timeline`, { cursor }, signal);
    spans = merged(spans, page);
    cursor = page.next;
    show(spans);
  } while (cursor !== null && !signal.aborted);
}

/** `onChange` is called with the changed spans. */
export function useSpans(name: string, onChange: (ids: readonly string[]) => void): SpansState {
  const [state, setState] = useState<{ name: string; spans: Spans | null; error: unknown }>({ name, spans: null, error: null });
  const [attempt, retry] = useReducer((count: number) => count + 1, 0);
  const latest = useRef<Spans | null>(null);
  const show = useCallback(
    (spans: Spans) => {
      latest.current = spans;
      setState({ name, spans, error: null });
    },
    [name],
  );
  useEffect(() => {
    const leaving = new AbortController();
    latest.current = null;
    loadSpans(name, leaving.signal, show).catch((error: unknown) => {
      // Loaded data stays: it is old, but better than nothing.
      if (!leaving.signal.aborted) setState((now) => ({ name, spans: now.name === name ? now.spans : null, error }));
    });
    return () => leaving.abort();
  }, [name, attempt, show]);
  // What changes while they are loaded again may be newer than what is loaded: watched again from there, it follows.
  const again = () => {
    setState((now) => ({ ...now, spans: now.spans && { ...now.spans, whole: false } }));
    retry();
  };
  const spans = state.name === name ? state.spans : null;
  useLiveSession(spans?.whole ? spans.key : null, spans?.table.cursor);
  useLive(
    undefined,
    (news) => {
      const before = latest.current;
      if (!before?.whole || news.session !== before.key) return;
      if (news.next !== null) again();
      else show(merged(news.complete ? null : before, news));
      onChange(news.span_id);
    },
    again,
  );
  return { spans, error: state.name === name ? state.error : null, retry };
}
