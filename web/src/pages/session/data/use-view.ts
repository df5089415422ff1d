/** The view of a session, stored in the address. */
import { useMemo } from "react";

import type { How, Params } from "../../../url";
import { useParams } from "../../../url";
import type { Filter } from "../model/rows";

const VIEWS = ["conversation", "waterfall", "requests"] as const;

export type ViewName = (typeof VIEWS)[number];

export interface View {
  name: ViewName;
  /** The span whose details are open. */
  span: string | null;
  filter: Filter;
  hideThinking: boolean;
  /** Pauses are drawn as long as they were. */
  realTime: boolean;
  /** The window of time, in milliseconds since 1970; null for the whole session. */
  zoom: readonly [number, number] | null;
  search: string;
  change(changes: Params, how?: How): void;
}

export function useView(): View {
  const params = useParams();
  return useMemo(() => {
    const [from, to] = [params.number("from"), params.number("to")];
    return {
      name: VIEWS.find((name) => name === params.text("view")) ?? "conversation",
      span: params.text("span") || null,
      filter: { errors: params.flag("errors"), tool: params.text("tool") },
      hideThinking: params.flag("nothinking"),
      realTime: params.flag("realtime"),
      zoom: from !== null && to !== null && to > from ? [from, to] : null,
      search: params.text("q"),
      change: params.change,
    };
  }, [params]);
}
