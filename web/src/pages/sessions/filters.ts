/** Which sessions the list shows and in what order, as the address has it: the same names as the API, so it reads both. */
import type { SessionRow } from "../../api/shapes";
import type { Params } from "../../url";
import { address, flagOf, numberOf } from "../../url";

export type State = SessionRow["state"];
export const STATES: readonly State[] = ["working", "waiting", "interrupted", "ended"];

export const SORTS = ["last", "started", "duration", "turns", "errors", "tokens", "cost", "changes", "commits"] as const;
export type SortBy = (typeof SORTS)[number];

/** Outcomes to filter by, beside commits. */
export const OUTCOMES = ["files", "pull_requests", "tests", "failed_tests"] as const;
export type Outcome = (typeof OUTCOMES)[number];

export interface Filters {
  agents: string[];
  projects: string[];
  states: State[];
  models: string[];
  /** Sought in titles here, and in all texts by the search. */
  q: string;
  /** `today`, `7d`, a day or a moment; "" for none. */
  since: string;
  /** Before this. */
  until: string;
  minCost: number | null;
  errors: boolean;
  commits: boolean;
  /** All of these. */
  outcomes: Outcome[];
  /** All of them. */
  labels: string[];
  /** Conditions, all of which the latest scores meet: `quality<3`. */
  scores: string[];
  starred: boolean;
  /** Of a team's store. */
  machines: string[];
  persons: string[];
}

export interface View {
  filters: Filters;
  sort: SortBy;
  order: "asc" | "desc";
}

/** Valid times: any other value in an address is dropped instead of being refused by the server. */
const TIME = /^(today|yesterday|(?:this|last)-(?:week|month)|\d{1,6}[mhdw]|\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:?\d\d)?)?)$/;

export function timeOf(text: string | null): string {
  return text !== null && TIME.test(text) ? text : "";
}

/** A condition on a score, as the server reads it. */
export interface ScoreTest {
  name: string;
  comparison: (typeof COMPARISONS)[number];
  value: number;
}

export const COMPARISONS = ["<", "<=", "=", ">=", ">"] as const;
const SCORE_TEST = /^\s*(.+?)\s*(<=|>=|==|=|<|>)\s*([^<>=]+)$/;

/** The parts of a condition; null for what is none. */
export function scoreTestOf(text: string): ScoreTest | null {
  const [, name = "", sign = "", typed = ""] = SCORE_TEST.exec(text) ?? [];
  const comparison = COMPARISONS.find((each) => each === (sign === "==" ? "=" : sign));
  const value = numberOf(typed);
  return comparison && value !== null ? { name, comparison, value } : null;
}

const PASSES: Record<ScoreTest["comparison"], (score: number, value: number) => boolean> = {
  "<": (score, value) => score < value,
  "<=": (score, value) => score <= value,
  "=": (score, value) => score === value,
  ">=": (score, value) => score >= value,
  ">": (score, value) => score > value,
};

/** Whether the scores of a session meet a condition; a session without that score does not. */
export function passes(scores: Readonly<Record<string, number>>, text: string): boolean {
  const test = scoreTestOf(text);
  const score = test ? scores[test.name] : undefined;
  return test !== null && score !== undefined && PASSES[test.comparison](score, test.value);
}

export function scoreTestText({ name, comparison, value }: ScoreTest): string {
  return `${name}${comparison}${value}`;
}

/** The view that the search part of an address is. */
export function viewOf(search: string): View {
  const params = new URLSearchParams(search);
  const cost = numberOf(params.get("min_cost"));
  return {
    filters: {
      agents: params.getAll("agent"),
      projects: params.getAll("project"),
      states: STATES.filter((state) => params.getAll("state").includes(state)),
      models: params.getAll("model"),
      q: (params.get("q") ?? "").trim().slice(0, 500),
      since: timeOf(params.get("since")),
      until: timeOf(params.get("until")),
      minCost: cost !== null && cost > 0 ? cost : null,
      errors: flagOf(params.get("errors")),
      commits: flagOf(params.get("commits")),
      outcomes: OUTCOMES.filter((outcome) => params.getAll("outcome").includes(outcome)),
      labels: params.getAll("label"),
      scores: params.getAll("score").filter((score) => scoreTestOf(score) !== null),
      starred: flagOf(params.get("starred")),
      machines: params.getAll("machine"),
      persons: params.getAll("person"),
    },
    sort: SORTS.find((sort) => sort === params.get("sort")) ?? "last",
    order: params.get("order") === "asc" ? "asc" : "desc",
  };
}

/** Filters as values of an address; unset ones are null, so that they are removed from it. */
export function filterParams(filters: Filters): Params {
  return {
    agent: listed(filters.agents),
    project: listed(filters.projects),
    state: listed(filters.states),
    model: listed(filters.models),
    q: filters.q || null,
    since: filters.since || null,
    until: filters.until || null,
    min_cost: filters.minCost,
    errors: filters.errors || null,
    commits: filters.commits || null,
    outcome: listed(filters.outcomes),
    label: listed(filters.labels),
    score: listed(filters.scores),
    starred: filters.starred || null,
    machine: listed(filters.machines),
    person: listed(filters.persons),
  };
}

function listed(values: readonly string[]): readonly string[] | null {
  return values.length > 0 ? values : null;
}

/** A view as values of an address; the usual order is not written. */
export function viewParams(view: View): Params {
  const usual = view.order === "desc";
  return {
    ...filterParams(view.filters),
    sort: view.sort === "last" ? null : view.sort,
    order: usual ? null : view.order,
  };
}

/** A view as the search part of an address. */
export function searchOf(view: View): string {
  return address("", viewParams(view)).replace(/^\?/, "");
}

export const NO_FILTERS: Filters = viewOf("").filters;

/** How many filters are set, without the search. */
export function countSet(filters: Filters): number {
  const { agents, projects, states, models, labels, scores, since, until, minCost, errors, commits, outcomes, starred } = filters;
  const lists = [agents, projects, states, models, labels, scores, outcomes, filters.machines, filters.persons].map((list) => list.length);
  const set = [...lists, since || until, minCost !== null, errors, commits, starred];
  return set.filter(Boolean).length;
}
