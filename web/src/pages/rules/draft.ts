/** A rule in the form, as texts, and as the table that the server takes. */
import type { Rule, RuleAction, RuleEventKind } from "../../api/shapes";
import type { Language } from "../../text";

export type EventKind = RuleEventKind["kind"];
export type Once = RuleEventKind["once"];

/** Filters that are lists of names. */
export const NAMES = ["agent", "project", "model", "branch", "machine", "person", "tool", "label", "budget", "destination", "secret"] as const;
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
  /** Filters of the rule that this form does not show, and the event that they are about. */
  kept: { on: EventKind; where: Record<string, unknown> };
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
  if (on === "secret.found") return ["secret", ...OF_SESSIONS];
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
    kept: { on: "session.ended", where: {} },
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

const SHOWN: readonly string[] = [...NAMES, ...NUMBERS, "errors"];

/** The filters of a rule that the form has no field for. */
function notShown(rule: Rule): Record<string, unknown> {
  const fields: string[] = [...filtersOf(rule.on), ...(hasErrors(rule.on) ? ["errors"] : [])];
  return Object.fromEntries(Object.entries(rule.where).filter(([name]) => !fields.includes(name)));
}

/** Those of them that stay: all, or of another event those that no event has a field for. */
export function keptFilters({ on, kept }: Pick<Draft, "on" | "kept">): Record<string, unknown> {
  if (on === kept.on) return kept.where;
  return Object.fromEntries(Object.entries(kept.where).filter(([name]) => !SHOWN.includes(name)));
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
    kept: { on: rule.on, where: notShown(rule) },
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

/** The table of a draft: what is empty is left out, and so are filters of other events; what is not shown stays. */
export function tableOf(draft: Draft, mode?: Rule["mode"]): Record<string, unknown> {
  const where: Record<string, unknown> = { ...keptFilters(draft) };
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
  /** One line each, `Name: value`. */
  headers: string;
  allow_private: boolean;
  apps: string[];
  input: string;
  /** Numbers are texts; empty: the default. */
  max_chars: string;
  keep: string[];
  /** Of messages, and of the prompts of a chain. */
  language: Language;
  timeout_seconds: string;
  /** Of an action that exists: its secrets are not known here, and stay unless they are written anew or taken out. */
  drop: { secret: boolean; headers: boolean };
}

export function newAction(language: Language): ActionDraft {
  return {
    name: "",
    type: "webhook",
    url: "",
    format: "slack",
    secret: "",
    headers: "",
    allow_private: false,
    apps: [],
    input: "conversation",
    max_chars: "",
    keep: ["note"],
    language,
    timeout_seconds: "",
    drop: { secret: false, headers: false },
  };
}

/** Whether the form can change an action: those of the file are changed there, and so are commands. */
export function isEditable(action: RuleAction): boolean {
  return action.origin !== "file" && action.type !== "command";
}

/** The draft of an action that exists. */
export function actionDraftOf(action: RuleAction): ActionDraft {
  const language: Language = action.language === "zh" ? "zh" : "en";
  const start = newAction(language);
  return {
    ...start,
    name: action.name,
    type: action.type === "command" ? "notify" : action.type,
    format: action.format ?? "json",
    allow_private: action.allow_private,
    apps: [...action.apps],
    input: action.input ?? start.input,
    max_chars: action.max_chars === null ? "" : String(action.max_chars),
    keep: action.type === "chain" ? [...action.keep] : start.keep,
    timeout_seconds: String(action.timeout_seconds),
  };
}

/** Headers by name; a line that is none is left to the server, which says so. */
function headersOf(text: string): Record<string, string> {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  return Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(":");
      return colon < 0 ? [line.trim(), ""] : [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
    }),
  );
}

/** The table of an action. Secrets that are not in it stay as they are; null takes them out. */
export function actionTable(draft: ActionDraft): Record<string, unknown> {
  const table: Record<string, unknown> = { type: draft.type };
  if (draft.language !== "en") table["language"] = draft.language;
  if (draft.timeout_seconds.trim()) table["timeout_seconds"] = number(draft.timeout_seconds);
  if (draft.type === "chain") {
    Object.assign(table, { apps: draft.apps, input: draft.input, keep: draft.keep });
    if (draft.max_chars.trim()) table["max_chars"] = number(draft.max_chars);
  }
  if (draft.type === "webhook") {
    table["format"] = draft.format;
    if (draft.url.trim()) table["url"] = draft.url.trim();
    if (draft.secret.trim()) table["secret"] = draft.secret.trim();
    else if (draft.drop.secret) table["secret"] = null;
    if (draft.headers.trim()) table["headers"] = headersOf(draft.headers);
    else if (draft.drop.headers) table["headers"] = null;
    if (draft.allow_private) table["allow_private"] = true;
  }
  return table;
}
