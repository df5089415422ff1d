/** The routes: the address of each page, and its code, which is loaded when it is opened. */
import type { ComponentType } from "react";
import { lazy } from "react";

import type { PageName } from "./pages/code";
import { CODE } from "./pages/code";

export type { PageName } from "./pages/code";

export interface PageRoute {
  name: PageName;
  /** Its address. */
  path: string;
  /** What leads there, where that is more than its beginning: one pattern, so that the page stays in between. */
  pattern?: string | RegExp;
  /** Pressed after `g`. */
  key?: string;
  page: ComponentType;
}

export const ROUTES: PageRoute[] = [
  { name: "overview", path: "/", key: "o", page: lazy(CODE.overview) },
  { name: "sessions", path: "/sessions", key: "s", page: lazy(CODE.sessions) },
  { name: "session", path: "/sessions/", pattern: "/sessions/:key", page: lazy(CODE.session) },
  { name: "compare", path: "/compare", page: lazy(CODE.compare) },
  { name: "team", path: "/team", key: "t", page: lazy(CODE.team) },
  { name: "usage", path: "/usage", key: "u", page: lazy(CODE.usage) },
  { name: "insights", path: "/insights", key: "i", page: lazy(CODE.insights) },
  { name: "rules", path: "/rules", key: "l", page: lazy(CODE.rules) },
  {
    name: "runs",
    path: "/runs",
    pattern: /^\/runs(?:\/jobs\/(?<job>\d+)|\/calls\/(?<call>\d+))?\/?$/,
    key: "r",
    page: lazy(CODE.runs),
  },
  { name: "chat", path: "/chat", key: "c", page: lazy(CODE.chat) },
  { name: "guards", path: "/guards", key: "b", page: lazy(CODE.guards) },
  { name: "cache", path: "/cache", key: "k", page: lazy(CODE.cache) },
  { name: "files", path: "/files", key: "f", page: lazy(CODE.files) },
  { name: "exports", path: "/exports", key: "e", page: lazy(CODE.exports) },
  { name: "settings", path: "/settings", key: ",", page: lazy(CODE.settings) },
  { name: "login", path: "/login", page: lazy(CODE.login) },
];

/** Where a page begins. */
export function pathOf(name: PageName): string {
  return ROUTES.find((route) => route.name === name)?.path ?? "/";
}

/** Pages that only a team server has in its navigation. */
const OF_TEAMS: ReadonlySet<PageName> = new Set(["team"]);

/** Groups of the navigation. */
const NAVIGATION: PageName[][] = [
  ["overview", "sessions", "team", "usage", "insights", "rules"],
  ["runs", "chat", "guards", "cache"],
  ["files", "exports", "settings"],
];

/** Whether a page is offered, in the navigation and by keys. */
export function isOffered(name: PageName, team: boolean): boolean {
  return team || !OF_TEAMS.has(name);
}

export function navigation(team: boolean): PageName[][] {
  return NAVIGATION.map((names) => names.filter((name) => isOffered(name, team)));
}
