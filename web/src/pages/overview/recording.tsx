/** The state of recording: lag, lines by outcome, deduplication. */
import { Link } from "wouter";

import type { DedupTier, LineCounts, RecordingState } from "../../api/shapes";
import { useFormat } from "../../format";
import { Copy, Facts, Section, StateMark } from "../../parts";
import { useText } from "../../text";
import styles from "./recording.module.css";
import { text } from "./text";

export function Recording({ recording }: { recording: RecordingState }) {
  const t = useText(text);
  const f = useFormat();
  const { lines, quarantine_open: open, unreadable, lost_bytes: lost } = recording;
  return (
    <Section title={t.recording} actions={<Link href="/files">{t.files(f.count(recording.file_count))}</Link>}>
      <div className={styles.parts}>
        <Facts
          facts={[
            [t.recorder, <Recorder key="recorder" recording={recording} />],
            [t.problem, recording.problem === null ? undefined : bad("/files", recording.problem)],
            [t.lag, <Lag key="lag" recording={recording} />],
            [t.quarantine, open > 0 ? bad("/files", t.quarantined(f.count(open))) : t.noneOfThem],
            [t.unreadable, unreadable > 0 ? bad("/files?state=error", f.count(unreadable)) : undefined],
            [t.lost, lost > 0 ? bad("/files", f.size(lost)) : undefined],
            [t.searchIndex, recording.search_backlog > 0 ? t.backlog(f.count(recording.search_backlog)) : t.upToDate],
            [t.database, f.size(recording.database_bytes)],
          ]}
        />
        {lines.lines > 0 && (
          <div className={styles.lines}>
            <Outcomes lines={lines} />
            <Tiers tiers={recording.dedup} fresh={recording.new_events} />
          </div>
        )}
      </div>
    </Section>
  );
}

/** Problems that need attention, with a link. */
function bad(href: string, says: string) {
  return (
    <Link href={href} className={styles.bad}>
      {says}
    </Link>
  );
}

function Recorder({ recording }: { recording: RecordingState }) {
  const t = useText(text);
  if (recording.running) return <StateMark state="running" label={recording.pid === null ? t.running : t.runningAs(recording.pid)} />;
  return (
    <span className={styles.stopped}>
      <StateMark state="stopped" label={t.stopped} look="failed" />
      <Command>agenttrace record</Command>
    </span>
  );
}

/** A command to be typed into a terminal. */
export function Command({ children }: { children: string }) {
  return (
    <span className={styles.command}>
      <code>{children}</code>
      <Copy text={children} />
    </span>
  );
}

function Lag({ recording }: { recording: RecordingState }) {
  const t = useText(text);
  const f = useFormat();
  if (recording.behind_bytes === 0) return <>{t.upToDate}</>;
  return <Link href="/files?state=behind">{t.behind(f.size(recording.behind_bytes), f.count(recording.behind_files))}</Link>;
}

/** What became of every line that was read. */
function Outcomes({ lines }: { lines: LineCounts }) {
  const t = useText(text);
  const f = useFormat();
  const outcomes = ["recorded", "duplicate", "ignored", "quarantined"] as const;
  return (
    <table className={styles.figures}>
      <caption>{t.lines(f.count(lines.lines))}</caption>
      <thead className="unseen">
        <tr>
          <th scope="col">{t.outcome}</th>
          <th scope="col">{t.count}</th>
          <th scope="col">{t.rate}</th>
        </tr>
      </thead>
      <tbody>
        {outcomes.map((outcome) => (
          <tr key={outcome} data-bad={(outcome === "quarantined" && lines[outcome] > 0) || undefined}>
            <th scope="row">{t.outcomes[outcome]}</th>
            <td className="number">{f.count(lines[outcome])}</td>
            <td className="number">{f.percent(lines[outcome], lines.lines)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Deduplication hits by tier. */
function Tiers({ tiers, fresh }: { tiers: DedupTier[]; fresh: number }) {
  const t = useText(text);
  const f = useFormat();
  return (
    <table className={styles.figures}>
      <caption>{t.dedup(f.count(fresh))}</caption>
      <thead className="unseen">
        <tr>
          <th scope="col">{t.tier}</th>
          <th scope="col">{t.hits}</th>
          <th scope="col">{t.rate}</th>
        </tr>
      </thead>
      <tbody>
        {tiers.map(({ tier, hits, rate }) => (
          <tr key={tier}>
            <th scope="row">
              <strong>{tier.toUpperCase()}</strong> {t.tiers[tier]}
            </th>
            <td className="number">{f.count(hits)}</td>
            <td className="number">{f.percent(rate)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
