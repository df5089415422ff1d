/** To the previous and the next session, and back to the list: in the order of the list one came from, else by time. */
import { useMemo } from "react";
import { Link, useLocation } from "wouter";

import { useGet } from "../../api/queries";
import type { SessionDetail, SessionList } from "../../api/shapes";
import { Icon } from "../../parts";
import { useShortcuts } from "../../shell/shortcuts";
import { useText } from "../../text";
import type { Neighbours } from "../sessions/came-from";
import { firstAfter, keptList, neighboursIn } from "../sessions/came-from";
import styles from "./neighbours.module.css";
import { text } from "./text";

/** Sessions that may be active at the same time: the next one is among them. */
const AROUND = 100;

function useNeighbours(session: SessionDetail): Neighbours {
  const listed = useMemo(() => neighboursIn(keptList(), session.key), [session.key]);
  const began = session.started_at;
  const when = listed === null && began !== null;
  const options = { when, fresh: 60_000 };
  const older = useGet<SessionList>("/sessions", { sort: "started", until: began, limit: 2 }, options);
  const newer = useGet<SessionList>("/sessions", { sort: "started", order: "asc", since: began, limit: AROUND }, options);
  if (listed) return listed;
  return {
    back: "/sessions",
    // As in a list with the newest first.
    previous: firstAfter(newer.data?.items ?? [], session)?.key ?? null,
    next: older.data?.items.find((row) => row.key !== session.key)?.key ?? null,
  };
}

export function NeighbourLinks({ session }: { session: SessionDetail }) {
  const t = useText(text);
  const { back, previous, next } = useNeighbours(session);
  const [, navigate] = useLocation();
  const to = (key: string | null) => key !== null && navigate(`/sessions/${key}`);
  useShortcuts([
    { keys: "N", does: t.keys.nextSession, run: () => to(next) },
    { keys: "P", does: t.keys.previousSession, run: () => to(previous) },
    { keys: "u", does: t.keys.back, run: () => navigate(back) },
  ]);
  return (
    <nav className={styles.neighbours} aria-label={t.neighbours.label}>
      <Arrow to={previous} icon="left" label={`${t.neighbours.previous} (P)`} />
      <Link href={back} className={styles.back} title={`${t.neighbours.back} (u)`}>
        {t.neighbours.list}
      </Link>
      <Arrow to={next} icon="right" label={`${t.neighbours.next} (N)`} />
    </nav>
  );
}

function Arrow({ to, icon, label }: { to: string | null; icon: "left" | "right"; label: string }) {
  if (to === null) {
    return (
      <span className={styles.arrow} data-off>
        <Icon name={icon} />
      </span>
    );
  }
  return (
    <Link href={`/sessions/${to}`} className={styles.arrow} aria-label={label} title={label}>
      <Icon name={icon} />
    </Link>
  );
}
