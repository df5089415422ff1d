/** Texts of spans in components. */
import { createContext, useCallback, useContext, useEffect, useMemo, useSyncExternalStore } from "react";

import { get } from "../../../api/client";
import type { TextPiece, Texts } from "../../../api/shapes";
import { TextCache } from "./text-cache";

function later(ms: number, run: () => void): void {
  window.setTimeout(run, ms);
}

/** The texts of a session, each cut after so many characters. */
export function useTextCache(key: string, chars: number): TextCache {
  return useMemo(
    () => new TextCache((ids) => get<Texts>(`/sessions/${key}/texts`, { span: ids, chars }), later),
    [key, chars],
  );
}

export const TextsContext = createContext<TextCache | null>(null);

/** The texts of a span from the cache around; undefined while they are loaded. */
export function useTexts(id: string): readonly TextPiece[] | undefined {
  const cache = useContext(TextsContext);
  const subscribe = useCallback((listener: () => void) => cache?.subscribe(id, listener) ?? (() => {}), [cache, id]);
  return useSyncExternalStore(subscribe, () => cache?.read(id));
}

/** Registers visible spans with a cache. */
export function useWanted(cache: TextCache, ids: readonly string[]): void {
  const all = ids.join(" ");
  useEffect(() => {
    cache.want(all === "" ? [] : all.split(" "));
    return () => cache.want([]);
  }, [cache, all]);
}
