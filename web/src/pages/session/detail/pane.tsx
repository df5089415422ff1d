/** All details of one span, next to the view, or over it on narrow screens. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";

import { ProblemError } from "../../../api/client";
import { keyOf, useGet } from "../../../api/queries";
import type { SpanDetail } from "../../../api/shapes";
import { useLive } from "../../../api/use-live";
import { Copy, Empty, Failed, IconButton, Loading, NARROW, StateMark, Text } from "../../../parts";
import { useText } from "../../../text";
import { CopyLink } from "../copy-link";
import { text } from "../text";
import { PaneFacts } from "./facts";
import styles from "./pane.module.css";
import { PaneTabs } from "./tabs";

interface PaneProps {
  session: string;
  span: string;
  onClose: () => void;
}

const CHARS = 20_000;

/** Loads the details of a span, and refreshes them when the span changes. */
function useSpan(session: string, span: string) {
  const client = useQueryClient();
  const path = `/sessions/${session}/spans/${span}`;
  const query = useGet<SpanDetail>(path, { chars: CHARS }, { keep: true });
  useLive(undefined, (news) => {
    if (news.session === session && news.span_id.includes(span)) void client.invalidateQueries({ queryKey: keyOf(path, { chars: CHARS }) });
  });
  return query;
}

export function Pane({ session, span, onClose }: PaneProps) {
  const t = useText(text);
  const query = useSpan(session, span);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // On a narrow screen the details cover everything else, so they get the focus.
    if (window.matchMedia(NARROW).matches) heading.current?.focus();
  }, []);
  const { data: detail, error } = query;
  const gone = error instanceof ProblemError && error.status === 404;
  return (
    <aside className={styles.pane} aria-label={t.pane.label}>
      <header className={styles.head}>
        <h2 ref={heading} tabIndex={-1}>
          {detail && <StateMark state={detail.status} bare />}
          <span className="faint">{detail ? t.kinds[detail.kind] : ""}</span>
          {detail && <Text line>{nameOf(detail)}</Text>}
        </h2>
        <Copy text={span} hint={t.pane.copySpan} />
        <CopyLink hint={t.pane.permalink} session={session} span={span} />
        <IconButton icon="close" label={t.pane.close} onClick={onClose} />
      </header>
      <div className={styles.body} aria-busy={query.isPlaceholderData || undefined}>
        {gone && <Empty icon="search" title={t.pane.gone} />}
        {error && !gone ? <Failed error={error} retry={() => void query.refetch()} /> : null}
        {!detail && !error && <Loading lines={8} />}
        {detail && !gone && (
          <>
            <PaneFacts detail={detail} />
            <PaneTabs detail={detail} />
          </>
        )}
      </div>
    </aside>
  );
}

/** The model, the tool or the agent: what is left of a name without its operation. */
function nameOf(detail: SpanDetail): string {
  return detail.name.replace(/^(?:execute_tool|chat|invoke_agent) /, "");
}
