/** Logging in and out. */
import type { QueryClient } from "@tanstack/react-query";

import { keepToken, post } from "./client";
import { keyOf } from "./queries";
import type { Me } from "./shapes";

/** Logs in; everything that was loaded before is forgotten. */
export async function login(client: QueryClient, name: string, password: string): Promise<Me> {
  return changed(client, await post<Me>("/login", { name, password }));
}

/** Logs out, and forgets everything that was loaded. */
export async function logout(client: QueryClient): Promise<Me> {
  return changed(client, await post<Me>("/logout"));
}

function changed(client: QueryClient, me: Me): Me {
  keepToken(me);
  client.clear();
  client.setQueryData(keyOf("/me"), me);
  return me;
}

/** The page to go to after the login: only a path of this console, never another site. */
export function afterLogin(next: string): string {
  return /^\/(?![/\\])/.test(next) && !next.startsWith("/login") ? next : "/";
}
