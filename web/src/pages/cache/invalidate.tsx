/** Invalidates results after confirmation. */
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { post } from "../../api/client";
import type { Invalidated } from "../../api/shapes";
import { Confirm, toast } from "../../parts";
import { useText } from "../../text";
import { text } from "./text";

/** One result, or all that fit. */
export type Target = { id: number } | { type: string; site: string; target: string };

export function Invalidate({ target, onClose }: { target: Target; onClose: () => void }) {
  const t = useText(text);
  const client = useQueryClient();
  const taking = useMutation({
    mutationFn: () => take(target),
    onSuccess: async ({ invalidated }) => {
      toast(t.taken(invalidated));
      await client.invalidateQueries({ predicate: (query) => String(query.queryKey[0]).startsWith("/cache") });
      onClose();
    },
  });
  return (
    <Confirm
      open
      danger
      title={"id" in target ? t.takeTitle(target.id) : t.takeAllTitle}
      yes={t.take}
      busy={taking.isPending}
      error={taking.error}
      onYes={() => taking.mutate()}
      onClose={onClose}
    >
      {t.takeWhat}
    </Confirm>
  );
}

function take(target: Target): Promise<Invalidated> {
  if ("id" in target) return post<Invalidated>(`/cache/${target.id}/invalidate`);
  return post<Invalidated>("/cache/invalidate", {
    cache_type: target.type || null,
    site_id: target.site ? Number(target.site) : null,
    target_id: target.target || null,
  });
}
