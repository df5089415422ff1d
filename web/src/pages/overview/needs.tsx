/** What needs the user now, and the sessions that are working. */
import { useEffect, useRef } from "react";
import { Link } from "wouter";

import type { Attention, SessionRow } from "../../api/shapes";
import type { Format } from "../../format";
import { useFormat } from "../../format";
import { Cost, Elapsed, Section, StateMark, Text, Time } from "../../parts";
import { useText } from "../../text";
import { address } from "../../url";
import { markSeen } from "../sessions/seen";
import { inPlace } from "./now";
import styles from "./needs.module.css";
import { text } from "./text";

/** Of each group, so that several groups fit on a screen. Of those that wait, as many as fill the card beside its neighbours. */
const SHOWN = 4;
const SHOWN_WAITING = 7;
/** The server returns at most this many per state. */
const TOLD = 50;

interface NeedsProps {
  attention: Attention[];
  waiting: SessionRow[];
  failed: SessionRow[];
}

export function Needs({ attention, waiting, failed }: NeedsProps) {
  const t = useText(text);
  const nothing = attention.length + waiting.length + failed.length === 0;
  return (
    <Section title={t.needs}>
      {nothing && <p className="soft">{t.nothingNeeded}</p>}
      {attention.length > 0 && (
        <ul role="list" className={styles.attention}>
          {attention.map((each) => (
            <Trouble key={`${each.kind} ${each.name} ${each.period} ${each.session_key}`} each={each} />
          ))}
        </ul>
      )}
      <Group name="waiting" state="waiting" rows={waiting} />
      <Group name="failed" state="interrupted" rows={failed} />
    </Section>
  );
}

export function Working({ rows }: { rows: SessionRow[] }) {
  const t = useText(text);
  const f = useFormat();
  return (
    <Section
      title={t.now}
      note={rows.length > 0 && counted(rows, f)}
      actions={rows.length > SHOWN && <Link href={address("/sessions", { state: "working" })}>{t.showAll}</Link>}
    >
      {rows.length === 0 ? (
        <p className="soft">
          {t.nothingRuns} <Link href="/sessions">{t.allSessions}</Link>
        </p>
      ) : (
        <Rows rows={rows} shown={SHOWN} />
      )}
    </Section>
  );
}

/** Something that fails, or is nearly used up, with a link to where it can be mended. */
function Trouble({ each }: { each: Attention }) {
  const t = useText(text);
  const f = useFormat();
  return (
    <li>
      <StateMark state={each.level} label={t.levels[each.level]} look={each.level === "failed" ? "failed" : "waiting"} bare />
      <Link href={placeOf(each)}>{troubleOf(each, t, f)}</Link>
      {each.detail && (
        <Text line className={styles.detail}>
          {each.detail}
        </Text>
      )}
    </li>
  );
}

/** What it is, in a few words. */
export function troubleOf(each: Attention, t: (typeof text)["en"], f: Format): string {
  const name = each.name ?? "";
  const count = f.count(each.count);
  const share = f.percent(each.share ?? 0);
  switch (each.kind) {
    case "recorder_failing":
      return t.trouble.recorderFailing;
    case "recorder_stopped":
      return t.trouble.recorderStopped;
    case "lines_quarantined":
      return t.trouble.quarantined(count);
    case "export_failing":
      return t.trouble.exportFailing(name);
    case "export_refused":
      return t.trouble.exportRefused(name, count);
    case "rule_paused":
      return t.trouble.rulePaused(name);
    case "rule_failing":
      return t.trouble.ruleFailing(name, count);
    case "budget":
      return t.trouble.budget(name, share);
    case "limit":
      return t.trouble.limit(name, t.windows[each.period as keyof typeof t.windows] ?? each.period ?? "", share);
    case "calls_refused":
      return t.trouble.callsRefused;
    case "breaker_open":
      return t.trouble.breaker(name);
    case "jobs_failed":
      return t.trouble.jobs(count);
  }
}

const PLACES: Record<Attention["kind"], string> = {
  recorder_failing: "/files",
  recorder_stopped: "/files",
  lines_quarantined: "/files?tab=quarantine",
  export_failing: "/exports",
  export_refused: "/exports",
  rule_paused: "/rules",
  rule_failing: "/rules",
  budget: "/usage",
  limit: "/usage",
  calls_refused: "/guards",
  breaker_open: "/guards",
  jobs_failed: "/runs?status=failed",
};

/** Where it can be mended. */
export function placeOf(each: Attention): string {
  return each.session_key ? `/sessions/${each.session_key}` : PLACES[each.kind];
}

interface GroupProps {
  name: "waiting" | "failed";
  state: SessionRow["state"];
  rows: SessionRow[];
}

function Group({ name, state, rows }: GroupProps) {
  const t = useText(text);
  const f = useFormat();
  if (rows.length === 0) return null;
  const shown = name === "waiting" ? SHOWN_WAITING : SHOWN;
  return (
    <section className={styles.group} aria-label={t.groups[name]}>
      <h3 className={styles.head}>
        <StateMark state={state} label={t.groups[name]} look={name === "failed" ? "failed" : undefined} />
        <span className="faint">{counted(rows, f)}</span>
        {rows.length > shown && <Link href={address("/sessions", { state, since: "24h" })}>{t.showAll}</Link>}
      </h3>
      <Rows rows={rows} shown={shown} />
    </section>
  );
}

function counted(rows: readonly SessionRow[], f: Format): string {
  return rows.length < TOLD ? f.count(rows.length) : `${TOLD}+`;
}

/** The first of them, which keep their places while agents work. */
function Rows({ rows, shown }: { rows: SessionRow[]; shown: number }) {
  const places = useRef<string[]>([]);
  const steady = inPlace(places.current, rows);
  useEffect(() => {
    places.current = steady.map((row) => row.key);
  });
  return (
    <ul role="list">
      {steady.slice(0, shown).map((row) => (
        <Row key={row.key} row={row} />
      ))}
    </ul>
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
      <Text line className={styles.place} none="">
        {[project, row.agent].filter(Boolean).join(" · ")}
      </Text>
      <span className={styles.errors}>{row.errors > 0 && t.errors(f.count(row.errors))}</span>
      <span className={styles.time}>
        {row.state === "working" ? <Elapsed start={row.started_at} end={null} /> : <Time at={row.last_at} />}
      </span>
      <span className={styles.cost}>
        <Cost bill={row.bill} />
      </span>
    </li>
  );
}
