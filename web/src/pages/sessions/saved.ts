/** Named filters, stored in the browser. */
import { useSyncExternalStore } from "react";

import { remember, remembered } from "../../memory";
import { Store } from "../../store";
import { address } from "../../url";
import type { View } from "./filters";
import { viewOf, viewParams } from "./filters";

export interface SavedFilter {
  name: string;
  /** The search part of the address: what a later version does not know any more is left out when it is read. */
  search: string;
}

const KEPT = "saved-filters";
const MOST = 50;
export const LONGEST_NAME = 60;

export function searchOf(view: View): string {
  return address("", viewParams(view)).replace(/^\?/, "");
}

export function savedView(saved: SavedFilter): View {
  return viewOf(saved.search);
}

/** Adds this filter; one of the same name is replaced in place. */
export function withSaved(all: readonly SavedFilter[], saved: SavedFilter): SavedFilter[] {
  const name = saved.name.trim().slice(0, LONGEST_NAME);
  if (!name) return [...all];
  const at = all.findIndex((other) => other.name === name);
  if (at >= 0) return all.with(at, { name, search: saved.search });
  return [...all, { name, search: saved.search }].slice(-MOST);
}

export function withoutSaved(all: readonly SavedFilter[], name: string): SavedFilter[] {
  return all.filter((other) => other.name !== name);
}

/** Under another name; one that has that name already gives way. */
export function renamed(all: readonly SavedFilter[], from: string, to: string): SavedFilter[] {
  const name = to.trim().slice(0, LONGEST_NAME);
  if (!name || name === from) return [...all];
  return all.filter((other) => other.name !== name).map((other) => (other.name === from ? { ...other, name } : other));
}

/** The stored filters; entries of another form are dropped. */
export function readSaved(text: string | null): SavedFilter[] {
  try {
    const kept: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(kept) ? kept.filter(isSaved).slice(0, MOST) : [];
  } catch {
    return [];
  }
}

function isSaved(value: unknown): value is SavedFilter {
  const found = value as Partial<SavedFilter> | null;
  return typeof found?.name === "string" && found.name !== "" && typeof found.search === "string";
}

const store = new Store<readonly SavedFilter[]>(readSaved(remembered(KEPT)));

export function changeSaved(next: readonly SavedFilter[]): void {
  store.set(next);
  remember(KEPT, next.length > 0 ? JSON.stringify(next) : null);
}

export function useSaved(): readonly SavedFilter[] {
  return useSyncExternalStore(store.subscribe, store.read);
}
