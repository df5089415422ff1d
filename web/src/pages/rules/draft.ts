/** A rule in the form, as texts, and as the table that the server takes. */
import type { Rule, RuleAction, RuleEventKind } from "../../api/shapes";
import type { Language } from "../../text";

export type EventKind = RuleEventKind["kind"];
export type Once = RuleEventKind["once"];

/** Filters that are lists of names. */
export const NAMES = ["agent", "project", "model", "branch", "machine", "person", "tool", "label", "budget", "destination"] as const;
/** Filters that are numbers. */
export const NUMBERS = ["min_cost", "min_tokens", "min_turns", "min_minutes", "at_least"] as const;
export type NameFilter = (typeof NAMES)[number];
export type NumberFilter = (typeof NUMBERS)[number];

export interface Draft {
  name: string;
  title: string;
  on: EventKind;
  /** Lists are separated by commas; numbers are texts. */
  where: Record<NameFilter | NumberFilter, string>;
  errors: "" | "true" | "false";
  settle: string;
  cooldown: string;
  sample: string;
  once: "" | Once;
  max_per_day: string;
  tokens_per_day: string;
  start: string;
  do: string[];
}

const OF_SESSIONS: (NameFilter | NumberFilter)[] = ["agent", "project", "model", "branch", "machine", "person", "label", "min_cost", "min_tokens", "min_turns", "min_minutes"];

/** The filters that mean something for a kind of event. */
export function filtersOf(on: EventKind): (NameFilter | NumberFilter)[] {
  if (on === "budget.crossed") return ["budget", "at_least"];
  if (on === "limit.crossed") return ["agent", "at_least"];
  if (on === "quarantine.grew") return ["agent"];
  if (on === "export.refused") return ["destination"];
  return on === "tool.failed" ? ["tool", ...OF_SESSIONS] : OF_SESSIONS;
}

/** Whether sessions with or without errors can be chosen. */
export function hasErrors(on: EventKind): boolean {
  return filtersOf(on).includes("min_turns");
}

const NOTHING = Object.fromEntries([...NAMES, ...NUMBERS].map((name) => [name, ""])) as Draft["where"];

export function newDraft(): Draft {
  return {
    name: "",
    title: "",
    on: "session.ended",
    where: { ...NOTHING },
    errors: "",
    settle: "",
    cooldown: "",
    sample: "",
    once: "",
    max_per_day: "",
    tokens_per_day: "",
    start: "now",
    do: [],
  };
}

const UNITS: [string, number][] = [
  ["d", 86_400],
  ["h", 3600],
  ["m", 60],
  ["s", 1],
];

/** Seconds as they are written: `90` is `1m 30s`. */
export function durationText(seconds: number): string {
  if (seconds <= 0) return "0s";
  const parts: string[] = [];
  let rest = seconds;
  for (const [unit, size] of UNITS) {
    const count = unit === "s" ? Math.round(rest * 1000) / 1000 : Math.floor(rest / size);
    if (count > 0) parts.push(`${count}${unit}`);
    rest -= count * size;
  }
  return parts.join(" ");
}

function listed(value: unknown): string {
  return Array.isArray(value) ? value.join(", ") : String(value ?? "");
}

/** The draft of a rule that exists. */
export function draftOf(rule: Rule): Draft {
  const where = { ...NOTHING };
  for (const name of [...NAMES, ...NUMBERS]) where[name] = listed(rule.where[name]);
  return {
    name: rule.name,
    title: rule.title,
    on: rule.on,
    where,
    errors: rule.where["errors"] === undefined ? "" : rule.where["errors"] ? "true" : "false",
    settle: durationText(rule.settle_seconds),
    cooldown: rule.cooldown_seconds ? durationText(rule.cooldown_seconds) : "",
    sample: rule.sample < 1 ? String(rule.sample) : "",
    once: rule.once,
    max_per_day: String(rule.max_per_day),
    tokens_per_day: rule.tokens_per_day === null ? "" : String(rule.tokens_per_day),
    start: rule.start,
    do: rule.do.map((action) => action.name),
  };
}

function split(text: string): string[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
}

/** A number, or the text where it is none: then the server says what is wrong. */
function number(text: string): number | string {
  const value = Number(text.trim());
  return Number.isFinite(value) ? value : text.trim();
}

/** The table of a draft: what is empty is left out, and so are filters of other events. */
export function tableOf(draft: Draft, mode?: Rule["mode"]): Record<string, unknown> {
  const where: Record<string, unknown> = {};
  for (const name of filtersOf(draft.on)) {
    const text = draft.where[name].trim();
    if (text === "") continue;
    where[name] = (NAMES as readonly string[]).includes(name) ? split(text) : number(text);
  }
  if (draft.errors && hasErrors(draft.on)) where["errors"] = draft.errors === "true";
  const table: Record<string, unknown> = { on: draft.on };
  if (draft.title.trim()) table["title"] = draft.title.trim();
  if (Object.keys(where).length > 0) table["where"] = where;
  for (const name of ["settle", "cooldown"] as const) if (draft[name].trim()) table[name] = draft[name].trim();
  for (const name of ["sample", "max_per_day", "tokens_per_day"] as const) {
    if (draft[name].trim()) table[name] = number(draft[name]);
  }
  if (draft.once) table["once"] = draft.once;
  if (draft.start.trim() && draft.start !== "now") table["start"] = draft.start.trim();
  if (draft.do.length > 0) table["do"] = draft.do;
  if (mode) table["mode"] = mode;
  return table;
}

export type ActionType = "notify" | "webhook" | "chain";

export interface ActionDraft {
  name: string;
  type: ActionType;
  url: string;
  format: NonNullable<RuleAction["format"]>;
  secret: string;
  allow_private: boolean;
  apps: string[];
  input: string;
  keep: string[];
  /** Of messages, and of the prompts of a chain. */
  language: Language;
}

export function newAction(language: Language): ActionDraft {
  return {
    name: "",
    type: "webhook",
    url: "",
    format: "slack",
    secret: "",
    allow_private: false,
    apps: [],
    input: "conversation",
    keep: ["note"],
    language,
  };
}

/** The table of an action. */
export function actionTable(draft: ActionDraft): Record<string, unknown> {
  const language = draft.language === "en" ? {} : { language: draft.language };
  if (draft.type === "notify") return { type: "notify", ...language };
  if (draft.type === "chain") return { type: "chain", apps: draft.apps, input: draft.input, keep: draft.keep, ...language };
  const table: Record<string, unknown> = { type: "webhook", url: draft.url.trim(), format: draft.format, ...language };
  if (draft.secret.trim()) table["secret"] = draft.secret.trim();
  if (draft.allow_private) table["allow_private"] = true;
  return table;
}
