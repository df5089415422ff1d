/** Changes of a destination. */
import type { UseMutationResult } from "@tanstack/react-query";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { post } from "../../api/client";
import type { Destination } from "../../api/shapes";
import { sentence, toast } from "../../parts";

/** Refreshes all data about destinations after a change; `quiet` if errors are shown elsewhere. */
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
