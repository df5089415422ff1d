/** Changes of rules. */
import type { UseMutationResult } from "@tanstack/react-query";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { sentence, toast } from "../../parts";

/** Refreshes all data about rules after a change; `quiet` if errors are shown elsewhere. */
export function useChange<V, T = unknown>(
  run: (data: V) => Promise<T>,
  said?: (data: V) => string,
  quiet = false,
): UseMutationResult<T, Error, V> {
  const client = useQueryClient();
  return useMutation<T, Error, V>({
    mutationFn: run,
    onSuccess: async (_, data) => {
      if (said) toast(said(data));
      await client.invalidateQueries({ predicate: (query) => String(query.queryKey[0]).startsWith("/rules") });
    },
    onError: quiet ? undefined : (error) => toast(sentence(error), { failed: true }),
  });
}
