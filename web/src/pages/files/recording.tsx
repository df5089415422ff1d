/** What became of the lines that were read, and which tier of deduplication knew the events that were dropped. */
import type { DedupTier, LineCounts, RecordingState } from "../../api/shapes";
import { useFormat } from "../../format";
import { Section } from "../../parts";
import { useText } from "../../text";
import styles from "./recording.module.css";
import { text } from "./text";

export function Internals({ state }: { state: RecordingState }) {
  if (state.lines.lines === 0) return null;
  return (
    <Section className={styles.internals}>
      <div className={styles.parts}>
        <Outcomes lines={state.lines} />
        <Tiers tiers={state.dedup} fresh={state.new_events} />
      </div>
    </Section>
  );
}

/** What became of every line that was read. */
function Outcomes({ lines }: { lines: LineCounts }) {
  const t = useText(text);
  const f = useFormat();
  const outcomes = ["recorded", "duplicate", "ignored", "quarantined"] as const;
  return (
    <table className={styles.figures}>
      <caption>{t.linesRead(f.count(lines.lines))}</caption>
      <thead className="unseen">
        <tr>
          <th scope="col">{t.lineOutcome}</th>
          <th scope="col">{t.lines}</th>
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
