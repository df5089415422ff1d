/** Changes of a destination. */
import type { UseMutationResult } from "@tanstack/react-query";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { post } from "../../api/client";
import type { Destination } from "../../api/shapes";
import { sentence, toast } from "../../parts";

/** Everything that is shown of destinations is asked for again after a change; `quiet` where errors are shown elsewhere. */
export function useChange<T, V = void>(
  row: Destination,
  action: string,
  said: (answer: T) => string,
  quiet = false,
): UseMutationResult<T, Error, V> {
  const client = useQueryClient();
  return useMutation<T, Error, V>({
    mutationFn: (data: V) => post<T>(`/exports/${encodeURIComponent(row.name)}/${action}`, data ?? {}),
    onSuccess: async (answer) => {
      toast(said(answer));
      await client.invalidateQueries({ predicate: (query) => String(query.queryKey[0]).startsWith("/exports") });
    },
    onError: quiet ? undefined : (error) => toast(sentence(error), { failed: true }),
  });
}
