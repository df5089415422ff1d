/** The query of the usage page in its address, and the links of its rows. */
import type { UsageGroup } from "../../api/shapes";
import type { Params } from "../../url";
import { address } from "../../url";
import { timeOf } from "../sessions/filters";
import { dayPlus, isDay, monthPeriod } from "../sessions/period";

export const BYS = ["day", "month", "model", "agent", "project", "person", "machine", "session"] as const;
export type By = (typeof BYS)[number];
export const SPLITS = ["model", "agent", "project", "person", "machine"] as const;
/** Groups and parts of a team's store. */
export const OF_TEAMS: ReadonlySet<string> = new Set(["person", "machine"]);
export type Split = (typeof SPLITS)[number];

/** All time, in the address; nothing in it means the usual time. */
export const ALWAYS = "all";

export interface Question {
  by: By;
  split: Split | null;
  since: string;
  until: string;
  agents: string[];
  projects: string[];
  models: string[];
  machines: string[];
  persons: string[];
}

/** Months are compared over all time, everything else over thirty days. */
export function usualSince(by: By): string {
  return by === "month" ? ALWAYS : "30d";
}

/** Everything is split by model by default, but models and sessions, which mostly have one. */
function usualSplit(by: By): Split | null {
  return by === "model" || by === "session" ? null : "model";
}

export function questionOf(search: string): Question {
  const params = new URLSearchParams(search);
  const by = BYS.find((known) => known === params.get("by")) ?? "day";
  const split = params.get("split");
  const since = params.get("since") === ALWAYS ? ALWAYS : timeOf(params.get("since"));
  const until = timeOf(params.get("until"));
  return {
    by,
    split: split === null ? usualSplit(by) : (SPLITS.find((known) => known === split && known !== by) ?? null),
    since: since || (until ? ALWAYS : usualSince(by)),
    until,
    agents: params.getAll("agent"),
    projects: params.getAll("project"),
    models: params.getAll("model"),
    machines: params.getAll("machine"),
    persons: params.getAll("person"),
  };
}

/** The question as the API takes it. */
export function apiParams(question: Question): Params {
  const { by, split, since, until, agents, projects, models, machines, persons } = question;
  return { by, split, since: since === ALWAYS ? null : since, until, agent: agents, project: projects, model: models, machine: machines, person: persons };
}

/** The query as values of an address; defaults are not written. */
export function questionParams(question: Question): Params {
  const { by, split, since, until, agents, projects, models, machines, persons } = question;
  return {
    by: by === "day" ? null : by,
    split: split === usualSplit(by) ? null : (split ?? "none"),
    since: since === (until ? ALWAYS : usualSince(by)) ? null : since,
    until: until || null,
    agent: agents,
    project: projects,
    model: models,
    machine: machines,
    person: persons,
  };
}

/** The same time and filters, grouped by something else. */
export function regrouped(question: Question, by: By): Question {
  const since = question.since === usualSince(question.by) && !question.until ? usualSince(by) : question.since;
  const usual = question.split === usualSplit(question.by) || question.split === by;
  return { ...question, by, since, split: usual ? usualSplit(by) : question.split };
}

/** Where a row leads: from a month to its days, from a day to its sessions, from a name to its days. */
export function nextOf(row: UsageGroup, question: Question): string | null {
  const { by, agents, projects, models, machines, persons } = question;
  const filters = { agent: agents, project: projects, model: models, machine: machines, person: persons };
  if (by === "session") return row.key && `/sessions/${row.key}`;
  if (row.group === null) return null;
  if (by === "day") return address("/sessions", { ...filters, since: row.group, until: dayPlus(row.group, 1) });
  if (by === "month") return usage({ ...question, by: "day", ...monthPeriod(row.group) });
  return usage({ ...regrouped(question, "day"), [`${by}s`]: [row.group] });
}

function usage(question: Question): string {
  return address("/usage", questionParams(question));
}

const MOST_DAYS = 1000;

/** The days from the first to the last, none left out: a gap in time must be seen as one. */
export function withGaps(rows: readonly UsageGroup[]): UsageGroup[] {
  const days = rows
    .filter((row) => row.group !== null && isDay(row.group))
    .toSorted((one, other) => ((one.group ?? "") < (other.group ?? "") ? -1 : 1));
  const filled: UsageGroup[] = [];
  for (const row of days) {
    let gap = dayPlus(filled.at(-1)?.group ?? "", 1);
    while (gap && gap < (row.group ?? "") && filled.length < MOST_DAYS) {
      filled.push({ ...row, group: gap, bill: nothing(row), parts: [], outcomes: NOTHING_CAME });
      gap = dayPlus(gap, 1);
    }
    filled.push(row);
  }
  return filled;
}

const NOTHING_CAME: UsageGroup["outcomes"] = { commits: 0, added: 0, removed: 0, cost_per_commit: {}, known_from: [] };

function nothing({ bill }: UsageGroup): UsageGroup["bill"] {
  const emptied = Object.entries(bill).map(([name, value]) => [name, typeof value === "number" ? 0 : value]);
  return { ...bill, ...Object.fromEntries(emptied), cost: null, currency: null, costs: {}, unpriced_models: [] };
}
