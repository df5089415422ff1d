/** The trace of a job or a conversation, which is there as soon as something of it was recorded. */
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "wouter";

import { ProblemError } from "../../api/client";
import { keyOf, useGet } from "../../api/queries";
import type { SessionDetail } from "../../api/shapes";
import { visible } from "../../parts";
import { useText } from "../../text";
import { text } from "./text";

interface TraceLinkProps {
  /** The key of its session, or the session's id; null if it has none. */
  session: string | null;
  /** It is not finished: more may be recorded. */
  open?: boolean;
}

export function TraceLink({ session, open }: TraceLinkProps) {
  const t = useText(text).detail;
  const path = `/sessions/${encodeURIComponent(session ?? "")}`;
  const found = useQueryClient().getQueryData(keyOf(path)) !== undefined;
  // The recorder may still be on its way after the end, too.
  const every = found ? undefined : open ? 5000 : 30_000;
  const query = useGet<SessionDetail>(path, {}, { when: session !== null, fresh: 60_000, every });
  if (query.data) return <Link href={`/sessions/${query.data.key}`}>{visible(query.data.session_id)}</Link>;
  if (session === null) return <span className="faint">{open ? t.traceLater : t.noTrace}</span>;
  if (query.error instanceof ProblemError && query.error.status === 404) {
    return <span className="faint">{open ? t.traceSoon : t.noTrace}</span>;
  }
  return <span className="faint">…</span>;
}
