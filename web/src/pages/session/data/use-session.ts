/** The data of a session without its spans, updated while it changes. */
import type { UseQueryResult } from "@tanstack/react-query";
import { useQueryClient } from "@tanstack/react-query";

import { keyOf, useGet } from "../../../api/queries";
import type { SessionDetail } from "../../../api/shapes";
import { useLive } from "../../../api/use-live";

export function useSession(name: string): UseQueryResult<SessionDetail> {
  const client = useQueryClient();
  const query = useGet<SessionDetail>(`/sessions/${name}`);
  const key = query.data?.key;
  useLive((news) => {
    const row = news.rows.find((row) => row.key === key);
    if (!row) return;
    client.setQueryData<SessionDetail>(keyOf(`/sessions/${name}`), (before) => before && { ...before, ...row });
  });
  return query;
}
