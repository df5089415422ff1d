/** The sessions that are selected to be compared: their keys, in the address. */
import { useCallback } from "react";

import { useListParam } from "../../url";

/** A comparison is of two. */
const MOST = 2;

export interface Picked {
  keys: readonly string[];
  /** Selects a session, or no longer; the newest of too many replaces the one before it. */
  toggle(key: string): void;
  clear(): void;
}

/** The selection after a session was selected, or deselected. */
export function toggled(keys: readonly string[], key: string): string[] {
  if (keys.includes(key)) return keys.filter((other) => other !== key);
  return [...keys.slice(0, MOST - 1), key];
}

export function usePicked(): Picked {
  const [keys, setKeys] = useListParam("compare");
  const toggle = useCallback((key: string) => setKeys(toggled(keys, key)), [keys, setKeys]);
  const clear = useCallback(() => setKeys([]), [setKeys]);
  return { keys: keys.slice(0, MOST), toggle, clear };
}
