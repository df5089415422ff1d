/** The code of each page, in files of its own. */
import type { ComponentType } from "react";

export const CODE = {
  overview: () => import("./overview"),
  sessions: () => import("./sessions"),
  session: () => import("./session"),
  compare: () => import("./compare"),
  team: () => import("./team"),
  usage: () => import("./usage"),
  insights: () => import("./insights"),
  rules: () => import("./rules"),
  runs: () => import("./runs"),
  chat: () => import("./chat"),
  guards: () => import("./guards"),
  cache: () => import("./cache"),
  files: () => import("./files"),
  exports: () => import("./exports"),
  settings: () => import("./settings"),
  login: () => import("./login"),
} satisfies Record<string, () => Promise<{ default: ComponentType }>>;

export type PageName = keyof typeof CODE;

/** The page at an address, by the first parts of its path; null where there is none. */
export function pageAt(path: string): PageName | null {
  const [first, second] = path.split("/").filter(Boolean);
  if (first === undefined) return "overview";
  if (first === "sessions" && second) return "session";
  return Object.hasOwn(CODE, first) ? (first as PageName) : null;
}
