/** What a list is filtered by, as the address says it. */
import { useMemo } from "react";

import type { Params } from "../../url";
import { useParams } from "../../url";
import { wholeNumber } from "./whole-number";

export interface Filters {
  status: string;
  event: string;
  app: string;
  site: string;
  member: string;
  job: string;
  since: string;
  until: string;
}

const NAMES = ["status", "event", "app", "site", "member", "job", "since", "until"] as const satisfies readonly (keyof Filters)[];
const NUMBERS: readonly string[] = ["site", "member", "job"];
export const NO_FILTERS: Params = Object.fromEntries(NAMES.map((name) => [name, null]));

/** The filters of a list whose items have these states; a value that can mean nothing counts as none. */
export function useFilters(statuses: readonly string[], own: readonly (keyof Filters)[]): Filters {
  const params = useParams();
  return useMemo(() => {
    const value = (name: keyof Filters) => {
      const said = params.text(name);
      if (name === "status") return statuses.includes(said) ? said : "";
      if (NUMBERS.includes(name)) return wholeNumber(said) ?? "";
      return said;
    };
    const common: readonly string[] = ["status", "app", "site", "member", "since", "until", ...own];
    const all = NAMES.map((name) => [name, common.includes(name) ? value(name) : ""]);
    return Object.fromEntries(all) as unknown as Filters;
  }, [params, statuses, own]);
}

export function isFiltered(filters: Filters): boolean {
  return NAMES.some((name) => filters[name] !== "");
}
