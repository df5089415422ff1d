/** The shown list: loaded page by page, live, and stable while the user reads it. */
import { useEffect, useMemo, useRef, useState } from "react";

import { usePages } from "../../api/queries";
import type { SessionList, SessionRow } from "../../api/shapes";
import { useLive } from "../../api/use-live";
import type { View } from "./filters";
import { viewParams } from "./filters";
import type { NewsByKey } from "./rows";
import { NO_NEWS, arranged, patched, steadied, withNews } from "./rows";

/** The delay between two changes of the order while several agents work, so that the list stays readable. */
const CALM = 2000;

export interface Rows {
  rows: SessionRow[];
  /** New sessions that are pending while the user reads. */
  fresh: number;
  /** How many fit, loaded or not. */
  total: number | undefined;
  /** The newest moment of all rows. */
  newest: string | null;
  query: ReturnType<typeof usePages<SessionRow, SessionList>>;
}

/** `held`: the user is reading, so rows do not move. */
export function useRows(view: View, held: boolean): Rows {
  const params = useMemo(() => ({ ...viewParams(view), limit: 100 }), [view]);
  const query = usePages<SessionRow, SessionList>("/sessions", params, { keep: true });
  const [news, setNews] = useState<NewsByKey>(NO_NEWS);
  useLive(
    (told) => setNews((known) => withNews(known, told)),
    undefined,
    () => setNews(NO_NEWS),
  );
  const pages = useMemo(() => query.data?.pages ?? [], [query.data]);
  const loaded = useMemo(() => patched(pages, news), [pages, news]);
  const all = useMemo(() => arranged(pages, news, view), [pages, news, view]);
  const { rows, fresh } = useSteady(all, loaded, news, held, query.isPlaceholderData ? "" : JSON.stringify(params));
  const added = all.length - loaded.length;
  const first = query.first;
  return {
    rows,
    fresh,
    total: first && !query.isPlaceholderData ? Math.max(first.total + added, rows.length) : undefined,
    newest: useMemo(() => newestOf(loaded, news), [loaded, news]),
    query,
  };
}

/** Keeps the order while the user reads, and otherwise for a moment after each change. */
function useSteady(all: SessionRow[], loaded: SessionRow[], news: NewsByKey, held: boolean, asked: string) {
  const shown = useRef({ asked: "", keys: [] as string[], since: 0 });
  const [, wake] = useState(0);
  const steady = steadied(shown.current.keys, all, loaded, news);
  const another = shown.current.asked !== asked || asked === "";
  const restless = Date.now() - shown.current.since < CALM;
  const moves = another || !(held || (restless && steady.fresh === 0));
  const found = moves ? { rows: all, fresh: 0 } : steady;
  useEffect(() => {
    const keys = found.rows.map((row) => row.key);
    const same = keys.length === shown.current.keys.length && keys.every((key, at) => key === shown.current.keys[at]);
    shown.current = { asked, keys, since: moves && !same ? Date.now() : shown.current.since };
  });
  useEffect(() => {
    if (moves || held) return undefined;
    const timer = window.setTimeout(() => wake((times) => times + 1), CALM);
    return () => window.clearTimeout(timer);
  });
  return found;
}

function newestOf(rows: readonly SessionRow[], news: NewsByKey): string | null {
  let newest: string | null = null;
  for (const { last_at: at } of [...rows, ...[...news.values()].map(({ row }) => row)]) {
    if (at !== null && (newest === null || at > newest)) newest = at;
  }
  return newest;
}
