/** Notifications of rules: through the browser where the user wants it, otherwise as a message in the page. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useLocation } from "wouter";

import { show, watch } from "../api/notifications";
import type { LiveNotice } from "../api/shapes";
import { useLiveNotices } from "../api/use-live";
import { toast } from "../parts/toast";
import { useText } from "../text";
import { address } from "../url";
import { text } from "./text";

/** Where a notice leads. */
function placeOf(notice: LiveNotice): string {
  if (notice.session === null) return address("/rules", { firing: notice.firing });
  return address(`/sessions/${notice.session}`, { span: notice.span_id });
}

export function useRuleNotices(): void {
  const t = useText(text);
  const client = useQueryClient();
  const [, navigate] = useLocation();
  useEffect(watch, []);
  useLiveNotices(({ items }) => {
    void client.invalidateQueries({ predicate: (query) => String(query.queryKey[0]).startsWith("/rules") });
    for (const notice of items) {
      void show(notice, {
        open: () => navigate(placeOf(notice)),
        inside: () =>
          toast(notice.text ? `${notice.title}: ${notice.text}` : notice.title, {
            link: { href: placeOf(notice), label: notice.session === null ? t.toLog : t.toSession },
          }),
      });
    }
  });
}
