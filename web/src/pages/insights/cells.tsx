/** Cells of the tables: rates of failures and durations, which may not be known. */
import { useFormat } from "../../format";
import { useText } from "../../text";
import styles from "./insights.module.css";
import { text } from "./text";

/** Above this a rate of failures is marked. */
const HIGH = 0.1;

/** A rate of failures; with `count` as the number itself, and the rate as a hint. */
export function Rate({ share, count }: { share: number; count?: number }) {
  const f = useFormat();
  const shown = count === undefined ? f.percent(share) : f.count(count);
  return (
    <span className={styles.rate} data-high={share >= HIGH || undefined} title={count === undefined ? undefined : f.percent(share)}>
      {shown}
    </span>
  );
}

/** A duration, and of how many calls it is known. */
export function Length({ ms, row }: { ms: number | null; row: { timed: number; calls: number } }) {
  const t = useText(text);
  const f = useFormat();
  if (ms === null)
    return (
      <span className="faint" title={t.unknown}>
        –
      </span>
    );
  const hint = row.timed < row.calls ? t.durationHint(f.count(row.timed), f.count(row.calls)) : undefined;
  return <span title={hint}>{f.duration(ms)}</span>;
}
