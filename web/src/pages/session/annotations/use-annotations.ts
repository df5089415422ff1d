/** The annotations of a session, and changes to them. */
import type { UseMutationResult } from "@tanstack/react-query";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { change } from "../../../api/client";
import { useGet } from "../../../api/queries";
import type { Annotation, AnnotationList, SessionDetail } from "../../../api/shapes";
import { toast } from "../../../parts";

export type Change =
  | { kind: "note"; text: string }
  | { kind: "score"; name: string; value: number; text: string }
  | { kind: "label"; name: string }
  | { kind: "star" }
  | { edit: string; text: string }
  | { remove: string };

/** All annotations; asked for again when the live stream says that one was changed. */
export function useAnnotations(session: SessionDetail): readonly Annotation[] {
  const { revision } = session.marks;
  return useGet<AnnotationList>(`/sessions/${session.key}/annotations`, { revision }, { keep: true }).data?.items ?? [];
}

/** Changes them; a failure is shown. */
export function useAnnotate(session: string): UseMutationResult<unknown, Error, Change> {
  const client = useQueryClient();
  const path = `/sessions/${session}/annotations`;
  return useMutation<unknown, Error, Change>({
    mutationFn: (wish) => {
      if ("remove" in wish) return change("DELETE", `${path}/${wish.remove}`);
      if ("edit" in wish) return change("PATCH", `${path}/${wish.edit}`, { text: wish.text });
      return change("POST", path, wish);
    },
    onSuccess: () =>
      Promise.all([
        client.invalidateQueries({ queryKey: [path] }),
        client.invalidateQueries({ queryKey: [`/sessions/${session}`] }),
        client.invalidateQueries({ queryKey: ["/sessions/facets"] }),
      ]),
    onError: (error) => toast(error.message, { failed: true }),
  });
}
