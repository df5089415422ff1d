/** The view of a session, stored in the address. */
import { useMemo } from "react";

import type { How, Params } from "../../../url";
import { useParams } from "../../../url";
import type { Filter } from "../model/rows";

/** The tabs, in their order. */
export const VIEWS = ["conversation", "waterfall", "changes", "tools", "requests", "raw"] as const;

export type ViewName = (typeof VIEWS)[number];

/** The tab that an address names: `tab`, or `view` in older links. */
export function viewName(tab: string, view: string): ViewName {
  return VIEWS.find((name) => name === tab) ?? VIEWS.find((name) => name === view) ?? "conversation";
}

/** The change of an address that leads to a tab; the usual one is not written. */
export function tabParams(name: ViewName): Params {
  return { tab: name === "conversation" ? null : name, view: null };
}

export interface View {
  name: ViewName;
  /** The span whose details are open. */
  span: string | null;
  filter: Filter;
  hideThinking: boolean;
  /** Pauses are drawn as long as they were. */
  realTime: boolean;
  /** The window of time, in milliseconds since 1970; null for that of the rows in view, or pinned for the whole session. */
  zoom: readonly [number, number] | null;
  /** The window stays as it is, whatever rows are in view. */
  pinned: boolean;
  /** Whether spans are also shown aggregated; null: depends on how many there are. */
  flame: boolean | null;
  search: string;
  /** The file that is in view in the changes; "" for none. */
  file: string;
  /** The tool whose calls are listed among the tools; "" for none. */
  calls: string;
  change(changes: Params, how?: How): void;
}

export function useView(): View {
  const params = useParams();
  return useMemo(() => {
    const [from, to] = [params.number("from"), params.number("to")];
    const name = viewName(params.text("tab"), params.text("view"));
    return {
      name,
      span: params.text("span") || null,
      filter: { errors: params.flag("errors"), tool: params.text("tool"), path: name === "waterfall" ? params.list("path") : [] },
      hideThinking: params.flag("nothinking"),
      realTime: params.flag("realtime"),
      zoom: from !== null && to !== null && to > from ? [from, to] : null,
      pinned: params.flag("pin"),
      flame: params.text("flame") === "" ? null : params.text("flame") !== "off",
      search: params.text("q"),
      file: params.text("file"),
      calls: params.text("calls"),
      change: params.change,
    };
  }, [params]);
}
