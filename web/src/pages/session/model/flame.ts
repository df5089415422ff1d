/** Spans grouped by the path of their names: how often each was called, for how long, and what that cost. */
import type { Kind, SpanTable } from "./span-table";

/** What groups are as wide as: milliseconds, tokens, or an amount of a currency. */
export type Measure = "time" | "tokens" | `cost ${string}`;

export type GroupKind = Kind | "subagent" | "agent";

/** The spans with the same names from the top down to them. */
export interface Group {
  /** Its name below its parent: kind and name. */
  key: string;
  kind: GroupKind;
  /** "" for turns and subagents, which have none. */
  name: string;
  /** The index of the group around it; -1 for none. */
  parent: number;
  depth: number;
  children: number[];
  count: number;
  errors: number;
  /** The durations of its spans, added up: those that ran at the same time count each. */
  time: number;
  /** As long as that, or as everything inside together: a tool goes on after the model call that asked for it. */
  reach: number;
  /** With everything inside. */
  tokens: number;
  unpriced: number;
  costs: Record<string, number>;
  /** The row of the span that took longest. */
  longest: number;
}

export interface Flame {
  /** Each after the group around it. */
  groups: Group[];
  /** The groups that are in no other. */
  tops: number[];
  /** By row: the group of a span. */
  groupOf: Int32Array;
}

function kindAndName(table: SpanTable, row: number): [GroupKind, string] {
  const kind = table.kindOf(row);
  if (kind === "step") return [kind, table.models[row] ?? ""];
  if (kind === "tool") return [kind, table.toolOf(row)];
  if (kind === "turn" && table.nested(row)) return ["subagent", ""];
  return [kind === "turn" && table.inner(row) ? "agent" : kind, table.titleOf(row)];
}

function keyOf(table: SpanTable, row: number): string {
  return kindAndName(table, row).join(" ").trimEnd();
}

/** `now`: until then open spans go on. */
export function flameOf(table: SpanTable, now: number): Flame {
  const { order } = table;
  const groups: Group[] = [];
  const tops: number[] = [];
  const groupOf = new Int32Array(table.length).fill(-1);
  const known = new Map<string, number>();
  for (let at = 0; at < order.length; at += 1) {
    const row = order.rows[at] ?? 0;
    const around = order.parent[row] ?? -1;
    const parent = around < 0 ? -1 : (groupOf[around] ?? -1);
    const key = keyOf(table, row);
    const place = `${parent} ${key}`;
    let index = known.get(place);
    if (index === undefined) {
      index = groups.length;
      known.set(place, index);
      const [kind, name] = kindAndName(table, row);
      groups.push(emptyGroup(key, kind, name, parent, parent < 0 ? 0 : (groups[parent]?.depth ?? 0) + 1));
      (parent < 0 ? tops : groups[parent]?.children)?.push(index);
    }
    groupOf[row] = index;
    const group = groups[index];
    if (group) addSpan(group, table, row, now);
  }
  // From the inside out: each group stands after the one around it.
  for (let index = groups.length - 1; index >= 0; index -= 1) {
    const group = groups[index];
    const parent = groups[group?.parent ?? -1];
    if (group) group.reach = Math.max(group.reach, group.time);
    if (group && parent) addInside(parent, group);
  }
  return { groups, tops, groupOf };
}

function emptyGroup(key: string, kind: GroupKind, name: string, parent: number, depth: number): Group {
  return { key, kind, name, parent, depth, children: [], count: 0, errors: 0, time: 0, reach: 0, tokens: 0, unpriced: 0, costs: {}, longest: -1 };
}

function addSpan(group: Group, table: SpanTable, row: number, now: number): void {
  const length = lengthOf(table, row, now);
  group.count += 1;
  group.time += length;
  if (table.statusOf(row) === "error") group.errors += 1;
  if (group.longest < 0 || length > lengthOf(table, group.longest, now)) group.longest = row;
  if (table.counted[row] !== 1) return;
  const tokens = (table.input[row] || 0) + (table.output[row] || 0);
  const [cost, currency] = [table.cost[row] ?? Number.NaN, table.currencies[row]];
  group.tokens += tokens;
  if (!Number.isNaN(cost) && currency) group.costs[currency] = (group.costs[currency] ?? 0) + cost;
  else if (tokens > 0) group.unpriced += 1;
}

function lengthOf(table: SpanTable, row: number, now: number): number {
  return Math.max(table.endOf(row, now) - (table.start[row] ?? 0), 0);
}

function addInside(parent: Group, group: Group): void {
  parent.reach += group.reach;
  parent.tokens += group.tokens;
  parent.unpriced += group.unpriced;
  for (const [currency, cost] of Object.entries(group.costs)) parent.costs[currency] = (parent.costs[currency] ?? 0) + cost;
}

/** What a session can be measured by: time, tokens, and each currency that it was paid in. */
export function measuresOf(flame: Flame): Measure[] {
  const currencies = new Set(flame.tops.flatMap((top) => Object.keys(flame.groups[top]?.costs ?? {})));
  const tokens = flame.tops.some((top) => (flame.groups[top]?.tokens ?? 0) > 0);
  return ["time", ...(tokens ? (["tokens"] as const) : []), ...[...currencies].sort().map((name) => `cost ${name}` as const)];
}

export function valueOf(group: Group, measure: Measure): number {
  if (measure === "time") return group.time;
  return measure === "tokens" ? group.tokens : (group.costs[measure.slice("cost ".length)] ?? 0);
}

/** What a group is as wide as. */
function widthOf(group: Group, measure: Measure): number {
  return measure === "time" ? group.reach : valueOf(group, measure);
}

/** The keys from the top down to a group. */
export function pathOf(flame: Flame, index: number): string[] {
  const found: string[] = [];
  for (let at = index; at >= 0; at = flame.groups[at]?.parent ?? -1) found.unshift(flame.groups[at]?.key ?? "");
  return found;
}

/** The group of a path; -1 if there is none. */
export function groupAt(flame: Flame, path: readonly string[]): number {
  let found = -1;
  let inside: readonly number[] = flame.tops;
  for (const key of path) {
    const next = inside.find((index) => flame.groups[index]?.key === key);
    if (next === undefined) return -1;
    found = next;
    inside = flame.groups[next]?.children ?? [];
  }
  return found;
}

/** By row: 1 for the spans of a path and everything in them. */
export function pathRows(table: SpanTable, path: readonly string[]): Uint8Array {
  const { order } = table;
  const within = new Uint8Array(table.length);
  // By row: how many keys of the path it and the spans around it are.
  const fits = new Int32Array(table.length);
  for (let at = 0; at < order.length; at += 1) {
    const row = order.rows[at] ?? 0;
    const parent = order.parent[row] ?? -1;
    const before = parent < 0 ? 0 : (fits[parent] ?? -1);
    const whole = parent >= 0 && within[parent] === 1;
    fits[row] = before >= 0 && path[before] === keyOf(table, row) ? before + 1 : -1;
    within[row] = whole || fits[row] === path.length ? 1 : 0;
  }
  return within;
}

export interface Box {
  /** -1: groups that are too small to be drawn each. */
  group: number;
  /** How many groups it stands for. */
  groups: number;
  /** Shares of the whole width. */
  left: number;
  width: number;
  level: number;
}

/** What is narrower than this share of the width is drawn together. */
const NARROWEST = 0.004;
/** Levels below the one that is narrowed to. */
const LEVELS = 8;

/** Where groups are drawn: those around the narrowed one as wide as all, those in it by their measure. */
export function boxesOf(flame: Flame, measure: Measure, narrowed: number): Box[] {
  const found: Box[] = [];
  const path: number[] = [];
  for (let at = narrowed; at >= 0; at = flame.groups[at]?.parent ?? -1) path.unshift(at);
  path.forEach((group, level) => found.push({ group, groups: 1, left: 0, width: 1, level }));
  const below = narrowed < 0 ? flame.tops : (flame.groups[narrowed]?.children ?? []);
  const whole = narrowed < 0 ? 0 : widthOf(flame.groups[narrowed] as Group, measure);
  place(flame, measure, below, whole, { left: 0, width: 1, level: path.length }, path.length + LEVELS, found);
  return found;
}

type Space = Pick<Box, "left" | "width" | "level">;

function place(flame: Flame, measure: Measure, groups: readonly number[], whole: number, space: Space, deepest: number, found: Box[]): void {
  const value = (index: number) => widthOf(flame.groups[index] as Group, measure);
  const sum = groups.reduce((total, index) => total + value(index), 0);
  const scale = space.width / (Math.max(sum, whole) || 1);
  const sorted = groups.filter((index) => value(index) > 0).sort((a, b) => value(b) - value(a));
  let { left } = space;
  let small = 0;
  let smallWidth = 0;
  for (const index of sorted) {
    const width = value(index) * scale;
    if (width < NARROWEST) {
      small += 1;
      smallWidth += width;
      continue;
    }
    found.push({ group: index, groups: 1, left, width, level: space.level });
    const inside = flame.groups[index]?.children ?? [];
    if (inside.length > 0 && space.level + 1 < deepest) {
      place(flame, measure, inside, value(index), { left, width, level: space.level + 1 }, deepest, found);
    }
    left += width;
  }
  if (small > 0) found.push({ group: -1, groups: small, left, width: smallWidth, level: space.level });
}
