/** Saved views: the search part of a page's address under a name, stored on the server. */
import type { SavedView } from "../api/shapes";

export type ViewPage = SavedView["page"];
export const LONGEST_NAME = 60;

/** The search part of an address, in an order of its own: two that select the same are equal. */
export function spelled(search: string): string {
  const pairs = [...new URLSearchParams(search)].filter(([, value]) => value !== "");
  return new URLSearchParams(pairs.toSorted((one, other) => (one.join("=") < other.join("=") ? -1 : 1))).toString();
}

/** The address of a view; its page is one of ours, whatever its search says. */
export function addressOf(view: Pick<SavedView, "page" | "search">): string {
  const search = new URLSearchParams(view.search).toString();
  return search ? `/${view.page}?${search}` : `/${view.page}`;
}

export interface OldFilter {
  name: string;
  search: string;
}

/** Filters that earlier versions stored in the browser; entries of another form are dropped. */
export function readOld(text: string | null): OldFilter[] {
  try {
    const kept: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(kept) ? kept.filter(isOld) : [];
  } catch {
    return [];
  }
}

function isOld(value: unknown): value is OldFilter {
  const found = value as Partial<OldFilter> | null;
  return typeof found?.name === "string" && found.name.trim() !== "" && typeof found.search === "string";
}
