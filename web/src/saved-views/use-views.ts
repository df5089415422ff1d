/** The saved views of the visitor, and changing them. */
import type { QueryClient } from "@tanstack/react-query";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";

import { ProblemError, change, get } from "../api/client";
import { keyOf, useGet } from "../api/queries";
import type { SavedView, SavedViewList } from "../api/shapes";
import { remember, remembered } from "../memory";
import { sentence } from "../parts/states";
import { toast } from "../parts/toast";
import { useText } from "../text";
import { text } from "./text";
import type { ViewPage } from "./views";
import { readOld } from "./views";

const PATH = "/views";
const FRESH = 30_000;
/** Where earlier versions stored filters of sessions. */
const OLD = "saved-filters";

export function useViews(when = true): readonly SavedView[] {
  const found = useGet<SavedViewList>(PATH, {}, { fresh: FRESH, when }).data;
  return found?.items ?? [];
}

function refreshed(client: QueryClient): Promise<void> {
  return client.invalidateQueries({ queryKey: keyOf(PATH).slice(0, 1) });
}

/** One change after the other; an error is shown. */
export function useViewChange() {
  const client = useQueryClient();
  const mutation = useMutation({
    mutationFn: (run: () => Promise<unknown>) => run(),
    onSuccess: () => refreshed(client),
    onError: (error) => toast(sentence(error), { failed: true }),
  });
  const { mutate } = mutation;
  return {
    save: (page: ViewPage, name: string, search: string) =>
      mutate(() => change<SavedView>("POST", PATH, { page, name, search })),
    change: (view: SavedView, changes: Partial<Pick<SavedView, "name" | "search" | "shared">>) =>
      mutate(() => change<SavedView>("PATCH", `${PATH}/${view.id}`, changes)),
    remove: (view: SavedView) => mutate(() => change<SavedViewList>("DELETE", `${PATH}/${view.id}`)),
  };
}

let moving = false;

/** Moves filters that earlier versions stored in this browser to the server, once. */
export function useOldFilters(): void {
  const t = useText(text);
  const client = useQueryClient();
  useEffect(() => {
    const old = readOld(remembered(OLD));
    if (old.length === 0 || moving) return;
    moving = true;
    void moved(old).then(
      async () => {
        remember(OLD, null);
        toast(t.moved);
        await refreshed(client);
      },
      // They stay in the browser, and the next visit tries again.
      () => {
        moving = false;
      },
    );
  }, [client, t]);
}

async function moved(old: ReturnType<typeof readOld>): Promise<void> {
  const { items } = await get<SavedViewList>(PATH);
  const names = new Set(items.filter((view) => view.mine && view.page === "sessions").map(({ name }) => name));
  for (const { name, search } of old) {
    if (names.has(name)) continue;
    try {
      await change<SavedView>("POST", PATH, { page: "sessions", name, search });
    } catch (error) {
      // One that the server refuses holds up no other.
      if (!(error instanceof ProblemError) || error.status >= 500) throw error;
    }
  }
}
