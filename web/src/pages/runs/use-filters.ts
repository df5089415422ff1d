/** The filters of a list, from the address. */
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

/** Changes that remove all of them from the address. */
export const NO_FILTERS: Params & Record<keyof Filters, null> = {
  status: null,
  event: null,
  app: null,
  site: null,
  member: null,
  job: null,
  since: null,
  until: null,
};

/** The filters of a list with these states; `own` are those of this list only. Invalid values are dropped. */
export function useFilters(statuses: readonly string[], own: "event" | "job"): Filters {
  const params = useParams();
  return useMemo(() => {
    const number = (name: string) => wholeNumber(params.text(name)) ?? "";
    return {
      status: statuses.find((status) => status === params.text("status")) ?? "",
      event: own === "event" ? params.text("event") : "",
      app: params.text("app"),
      site: number("site"),
      member: number("member"),
      job: own === "job" ? number("job") : "",
      since: params.text("since"),
      until: params.text("until"),
    };
  }, [params, statuses, own]);
}

export function isFiltered(filters: Filters): boolean {
  return Object.values(filters).some((value) => value !== "");
}
