/** The routes: the address of each page, and its code, which is loaded when it is opened. */
import type { ComponentType } from "react";
import { lazy } from "react";

export type PageName =
  | "overview"
  | "sessions"
  | "session"
  | "compare"
  | "usage"
  | "insights"
  | "rules"
  | "runs"
  | "chat"
  | "guards"
  | "cache"
  | "files"
  | "exports"
  | "settings"
  | "login";

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
  { name: "overview", path: "/", key: "o", page: lazy(() => import("./pages/overview")) },
  { name: "sessions", path: "/sessions", key: "s", page: lazy(() => import("./pages/sessions")) },
  { name: "session", path: "/sessions/", pattern: "/sessions/:key", page: lazy(() => import("./pages/session")) },
  { name: "compare", path: "/compare", page: lazy(() => import("./pages/compare")) },
  { name: "usage", path: "/usage", key: "u", page: lazy(() => import("./pages/usage")) },
  { name: "insights", path: "/insights", key: "i", page: lazy(() => import("./pages/insights")) },
  { name: "rules", path: "/rules", key: "l", page: lazy(() => import("./pages/rules")) },
  {
    name: "runs",
    path: "/runs",
    pattern: /^\/runs(?:\/jobs\/(?<job>\d+)|\/calls\/(?<call>\d+))?\/?$/,
    key: "r",
    page: lazy(() => import("./pages/runs")),
  },
  { name: "chat", path: "/chat", key: "c", page: lazy(() => import("./pages/chat")) },
  { name: "guards", path: "/guards", key: "b", page: lazy(() => import("./pages/guards")) },
  { name: "cache", path: "/cache", key: "k", page: lazy(() => import("./pages/cache")) },
  { name: "files", path: "/files", key: "f", page: lazy(() => import("./pages/files")) },
  { name: "exports", path: "/exports", key: "e", page: lazy(() => import("./pages/exports")) },
  { name: "settings", path: "/settings", key: ",", page: lazy(() => import("./pages/settings")) },
  { name: "login", path: "/login", page: lazy(() => import("./pages/login")) },
];

/** Where a page begins. */
export function pathOf(name: PageName): string {
  return ROUTES.find((route) => route.name === name)?.path ?? "/";
}

/** Groups of the navigation. */
export const NAVIGATION: PageName[][] = [
  ["overview", "sessions", "usage", "insights", "rules"],
  ["runs", "chat", "guards", "cache"],
  ["files", "exports", "settings"],
];
