/** The page of a session: header, conversation or waterfall, and the details of a span. */
import { useCallback, useRef } from "react";

import { ProblemError } from "../../api/client";
import type { SessionDetail } from "../../api/shapes";
import { useLive, useLiveState } from "../../api/use-live";
import { Empty, Failed, LinkButton, Loading, Page, Text } from "../../parts";
import { useText } from "../../text";
import { useRouteParams } from "../../url";
import { useSessionSeen } from "../sessions/seen";
import { useSession } from "./data/use-session";
import { useSpans } from "./data/use-spans";
import { Actions, Facts } from "./header";
import styles from "./session.module.css";
import { text } from "./text";
import { Views } from "./views";

/** The agent name of sessions from OTLP spans. */
const RECEIVED = "otlp";

export default function Session() {
  const { key = "" } = useRouteParams<{ key: string }>();
  // Another session is another page: nothing of this one may be left.
  return <SessionPage key={key} name={key} />;
}

function SessionPage({ name }: { name: string }) {
  const t = useText(text);
  const query = useSession(name);
  const changed = useRef<(ids: readonly string[]) => void>(() => {});
  const onChange = useCallback((ids: readonly string[]) => changed.current(ids), []);
  const { spans, error, retry } = useSpans(name, onChange);
  const session = query.data;
  useSessionSeen(session?.key ?? "", session?.last_at ?? null);
  const problem = query.error ?? error;
  if (problem instanceof ProblemError && problem.status === 404) {
    const again = () => {
      void query.refetch();
      retry();
    };
    return <Gone name={name} again={again} />;
  }
  const title = session ? (session.title ?? session.session_id) : t.window;
  // A working session opens at its end, others at their beginning.
  const ready = session !== undefined || query.error !== null ? spans : null;
  return (
    <Page
      full
      title={session ? <Text line none={t.untitled}>{title}</Text> : t.window}
      windowTitle={title}
      actions={session && <Actions session={session} />}
    >
      {session && <Facts session={session} />}
      <Stale />
      {!session && query.error ? <Failed error={query.error} retry={() => void query.refetch()} /> : null}
      {!spans && error ? <Failed error={error} retry={retry} /> : null}
      {!ready && !error && <Loading lines={12} />}
      {ready && ready.table.length === 0 && <Nothing />}
      {ready && ready.table.length > 0 && <Views spans={ready} session={session} live={isLive(session)} received={session?.agent === RECEIVED} changed={changed} />}
      {spans && !spans.whole && <p className="faint">{t.loadingMore}</p>}
    </Page>
  );
}

function isLive(session: SessionDetail | undefined): boolean {
  return session?.state === "working";
}

interface GoneProps {
  name: string;
  again: () => void;
}

function Gone({ name, again }: GoneProps) {
  const t = useText(text);
  // A link may be older than the first recorded line.
  useLive((news) => {
    if (news.rows.some((row) => row.key === name)) again();
  });
  return (
    <Page title={t.gone}>
      <Empty icon="search" title={t.goneNote}>
        <LinkButton href="/sessions">{t.toSessions}</LinkButton>
      </Empty>
    </Page>
  );
}

function Nothing() {
  const t = useText(text);
  return (
    <Empty icon="clock" title={t.empty}>
      <p className="faint">{t.emptyNote}</p>
    </Empty>
  );
}

/** The data may be out of date: shown where it is read, not only above. */
function Stale() {
  const t = useText(text);
  return useLiveState() === "offline" ? (
    <p role="status" className={styles.stale}>
      {t.stale}
    </p>
  ) : null;
}
