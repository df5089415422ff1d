/** Answers of the server in components: loaded, cached, refreshed. */
import type { InfiniteData, UseInfiniteQueryResult, UseQueryResult } from "@tanstack/react-query";
import { QueryClient, keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import type { Params } from "../url";
import { ProblemError, get } from "./client";
import type { Me, SettingList, TeamServer } from "./shapes";

/** A paged list. */
export interface Page<T> {
  items: T[];
  next: string | null;
}

export interface GetOptions {
  /** Polls at this interval while the page is visible. */
  every?: number;
  /** False: not yet. */
  when?: boolean;
  /** Shows the answer to the former question until the new one is there; for filters that change. */
  keep?: boolean;
  /** How long an answer counts as new, in milliseconds. */
  fresh?: number;
}

/** One client for the page. */
export function makeClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        // The server is mostly this very machine: reachable without a network.
        networkMode: "always",
        staleTime: 1000,
        retry: (failures, error) => failures < 1 && !(error instanceof ProblemError && error.status < 500),
        // A 304 gives the same object already; comparing big answers deeply would only cost.
        structuralSharing: false,
        refetchOnReconnect: false,
      },
      mutations: { networkMode: "always" },
    },
  });
}

/** The key of an answer: its path first, so that all answers below a path can be marked as old at once. */
export function keyOf(path: string, params: Params = {}): [string, Params] {
  return [path, params];
}

/** The answer to GET path. */
export function useGet<T>(path: string, params: Params = {}, options: GetOptions = {}): UseQueryResult<T> {
  return useQuery<T>({
    queryKey: keyOf(path, params),
    queryFn: ({ signal }) => get<T>(path, params, signal),
    enabled: options.when ?? true,
    refetchInterval: options.every ?? false,
    refetchIntervalInBackground: false,
    placeholderData: options.keep ? keepPreviousData : undefined,
    staleTime: options.fresh,
  });
}

export type Pages<T, P extends Page<T> = Page<T>> = UseInfiniteQueryResult<InfiniteData<P>> & {
  /** The items of all pages that are loaded. */
  items: T[];
  /** The newest first page: totals and cursors are read from it. */
  first: P | undefined;
};

/** A list by pages: `fetchNextPage()` loads the next one, `hasNextPage` is true if there is one. */
export function usePages<T, P extends Page<T> = Page<T>>(
  path: string,
  params: Params = {},
  options: GetOptions = {},
): Pages<T, P> {
  const query = useInfiniteQuery({
    queryKey: [...keyOf(path, params), "pages"],
    queryFn: ({ pageParam, signal }) => get<P>(path, { ...params, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last: P) => last.next,
    enabled: options.when ?? true,
    refetchInterval: options.every ?? false,
    refetchIntervalInBackground: false,
    placeholderData: options.keep ? keepPreviousData : undefined,
    staleTime: options.fresh,
  });
  const items = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  return { ...query, items, first: query.data?.pages[0] };
}

/** Who is looking. */
export function useMe(): UseQueryResult<Me> {
  return useGet<Me>("/me", {}, { fresh: 60_000 });
}

/** Whether the visitor may change things. */
export function useIsAdmin(): boolean {
  return useMe().data?.role === "admin";
}

/** The team whose sessions this server has; undefined on a machine's own server. */
export function useTeam(): TeamServer | undefined {
  const role = useMe().data?.role;
  const settings = useGet<SettingList>("/settings", {}, { when: role !== null && role !== undefined, fresh: 600_000 }).data;
  return settings?.team ?? undefined;
}
