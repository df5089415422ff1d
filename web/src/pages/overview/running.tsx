/** Sessions that are working, waiting or interrupted. */
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";

import type { Overview, SessionRow } from "../../api/shapes";
import { useLive } from "../../api/use-live";
import { useFormat } from "../../format";
import { Cost, Elapsed, Section, StateMark, Text, Time, Tokens } from "../../parts";
import { useText } from "../../text";
import { address } from "../../url";
import { markSeen } from "../sessions/seen";
import { NOTHING_NEW, inPlace, nowOf } from "./now";
import styles from "./running.module.css";
import { text } from "./text";

const SHOWN = 6;
/** The server returns at most this many per state. */
const TOLD = 50;

export function Running({ overview }: { overview: Overview }) {
  const t = useText(text);
  const { working, waiting, failed } = useNow(overview);
  const nothing = working.length + waiting.length + failed.length === 0;
  return (
    <Section title={t.now}>
      {nothing ? (
        <p className="soft">
          {t.nothingRuns} <Link href="/sessions">{t.allSessions}</Link>
        </p>
      ) : (
        <>
          <Group name="working" state="working" rows={working} />
          <Group name="waiting" state="waiting" rows={waiting} />
          <Group name="failed" state="interrupted" rows={failed} />
        </>
      )}
    </Section>
  );
}

/** The sessions of the last answer, updated by the live stream. */
function useNow(overview: Overview) {
  const [news, setNews] = useState(NOTHING_NEW);
  const answer = useRef(overview);
  useEffect(() => {
    if (answer.current !== overview) setNews(NOTHING_NEW);
    answer.current = overview;
  }, [overview]);
  useLive((told) => setNews((known) => new Map([...known, ...told.rows.map((row) => [row.key, row] as const)])));
  return nowOf(overview, news);
}

interface GroupProps {
  name: "working" | "waiting" | "failed";
  state: SessionRow["state"];
  rows: SessionRow[];
}

function Group({ name, state, rows }: GroupProps) {
  const t = useText(text);
  const f = useFormat();
  const places = useRef<string[]>([]);
  const steady = inPlace(places.current, rows);
  useEffect(() => {
    places.current = steady.map((row) => row.key);
  });
  if (rows.length === 0) return null;
  return (
    <section className={styles.group} aria-label={t.groups[name]}>
      <h3 className={styles.head}>
        <StateMark state={state} label={t.groups[name]} look={name === "failed" ? "failed" : undefined} />
        <span className="faint">{rows.length < TOLD ? f.count(rows.length) : `${TOLD}+`}</span>
        {rows.length > SHOWN && (
          <Link href={address("/sessions", { state, since: state === "working" ? null : "24h" })}>{t.showAll}</Link>
        )}
      </h3>
      <ul role="list">
        {steady.slice(0, SHOWN).map((row) => (
          <Row key={row.key} row={row} />
        ))}
      </ul>
    </section>
  );
}

function Row({ row }: { row: SessionRow }) {
  const t = useText(text);
  const f = useFormat();
  const project = row.project?.split(/[\\/]/).findLast(Boolean) ?? null;
  return (
    <li className={styles.row}>
      <Link href={`/sessions/${row.key}`} className={styles.title} onClick={() => markSeen(row)}>
        <Text line>{row.title ?? t.untitled}</Text>
      </Link>
      <Text line className={styles.project} none="">
        {project}
      </Text>
      <Text line className={styles.agent}>
        {row.agent}
      </Text>
      <span className={styles.errors}>{row.errors > 0 && t.errors(f.count(row.errors))}</span>
      <span className={styles.time}>
        {row.state === "working" ? <Elapsed start={row.started_at} end={null} /> : <Time at={row.last_at} />}
      </span>
      <span className={styles.tokens}>
        <Tokens bill={row.bill} />
      </span>
      <span className={styles.cost}>
        <Cost bill={row.bill} />
      </span>
    </li>
  );
}
