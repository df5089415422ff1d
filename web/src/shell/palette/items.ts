/** What the palette offers: how well an entry fits what is typed, and which were chosen lately. */
import type { IconName } from "../../parts/icon";

export const GROUPS = ["recent", "sessions", "views", "pages", "projects", "models", "team", "actions"] as const;
export type Group = (typeof GROUPS)[number];

export interface Item {
  /** Names it among all entries, and in the list of recent ones. */
  id: string;
  group: Exclude<Group, "recent">;
  label: string;
  /** Beside the label: a project, a state, a key. */
  note?: string;
  /** Other words that it is found by. */
  words?: string;
  icon: IconName;
  /** Where it leads; actions do something instead. */
  href?: string;
  run?: () => void;
}

/** The search in all texts: it is offered whatever is typed, after everything that fits. */
export const SEARCH_ALL = "search";
/** At most so many of a group while something is typed. */
const MOST: Partial<Record<Group, number>> = { sessions: 8, projects: 5, models: 5, team: 5, views: 5 };
const MOST_RECENT = 6;

/** How well an entry fits the words: 0 not at all, more is better. All words must be in it. */
export function fit(item: Item, typed: string): number {
  const sought = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const label = item.label.toLowerCase();
  const all = `${label} ${item.note ?? ""} ${item.words ?? ""}`.toLowerCase();
  let sum = 1;
  for (const word of sought) {
    if (!all.includes(word)) return 0;
    if (label.startsWith(word)) sum += 4;
    else if (startsWord(label, word)) sum += 3;
    else if (label.includes(word)) sum += 2;
    else sum += 1;
  }
  return sum;
}

function startsWord(text: string, word: string): boolean {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    if (at === 0 || /[\s/_.\-:]/.test(text[at - 1] ?? "")) return true;
  }
  return false;
}

export interface Section {
  group: Group;
  items: Item[];
}

/**
 * The entries in the order of the list. Without words: recent ones, then pages, views and actions. With words: those that
 * fit, groups by their best entry. Sessions were chosen by the server once it has `answered`; until then those of the words
 * before are shown, as far as they fit. Recent entries come first in their group.
 */
export function sections(items: readonly Item[], typed: string, recent: readonly string[], answered = true): Section[] {
  if (typed.trim() === "") {
    const lately = recent.flatMap((id) => items.find((item) => item.id === id) ?? []).slice(0, MOST_RECENT);
    const others = items.filter((item) => !lately.includes(item) && ["pages", "views", "actions"].includes(item.group));
    return grouped([["recent", lately], ...groupsOf(others)]);
  }
  const fits = (item: Item) => (item.group === "sessions" ? (answered || fit(item, typed) > 0 ? 2 : 0) : fit(item, typed));
  const scores = new Map(items.map((item) => [item, item.id === SEARCH_ALL ? 0.1 : fits(item)]));
  const score = (item: Item) => (scores.get(item) ?? 0) + (recent.includes(item.id) ? 0.5 : 0);
  const found = items.filter((item) => (scores.get(item) ?? 0) > 0);
  const groups = groupsOf(found).map(([group, members]): [Group, Item[]] => [
    group,
    (group === "sessions" ? members : members.toSorted((one, other) => score(other) - score(one))).slice(0, MOST[group]),
  ]);
  const best = (members: Item[]) => Math.max(0, ...members.map(score));
  return grouped(groups.toSorted(([, one], [, other]) => best(other) - best(one)));
}

function groupsOf(items: readonly Item[]): [Group, Item[]][] {
  return GROUPS.map((group) => [group, items.filter((item) => item.group === group)]);
}

function grouped(groups: [Group, Item[]][]): Section[] {
  return groups.filter(([, items]) => items.length > 0).map(([group, items]) => ({ group, items }));
}

/** An entry that was chosen, as the browser remembers it: enough to show it again without asking. */
export interface Recent {
  id: string;
  group: Item["group"];
  label: string;
  note?: string;
  href?: string;
}

export function withRecent(all: readonly Recent[], item: Item): Recent[] {
  const { id, group, label, note, href } = item;
  return [{ id, group, label, note, href }, ...all.filter((other) => other.id !== id)].slice(0, 2 * MOST_RECENT);
}

/** The remembered entries; what has another form is dropped. */
export function readRecent(text: string | null): Recent[] {
  try {
    const kept: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(kept) ? kept.filter(isRecent) : [];
  } catch {
    return [];
  }
}

function isRecent(value: unknown): value is Recent {
  const found = value as Partial<Recent> | null;
  const leads = found?.href === undefined || (typeof found.href === "string" && /^\/(?!\/)/.test(found.href));
  return typeof found?.id === "string" && typeof found.label === "string" && GROUPS.includes(found.group ?? "recent") && leads;
}
