/** The spans of a destination by state, as a bar and as numbers that open lists. */
import type { Destination } from "../../api/shapes";
import { useFormat } from "../../format";
import { useText } from "../../text";
import styles from "./exports.module.css";
import type { Listed, Shown } from "./states";
import { PARTS, SHOWN, isListed } from "./states";
import { text } from "./text";

interface LedgerBarProps {
  row: Destination;
  /** The state of the listed spans. */
  listed?: Listed;
  onList: (state: Listed) => void;
}

export function LedgerBar({ row, listed, onList }: LedgerBarProps) {
  const t = useText(text);
  const f = useFormat();
  const all = PARTS.reduce((sum, part) => sum + row[part.state], 0);
  if (all === 0) return <p className={styles.nothing}>{t.nothingYet}</p>;
  const said = PARTS.map((part) => `${t.states[part.state]} ${f.count(row[part.state])}`).join(", ");
  return (
    <div className={styles.ledger}>
      <div className={styles.bar} role="img" aria-label={`${t.bar}: ${said}`}>
        {PARTS.map((part) => {
          const count = row[part.state];
          return count > 0 ? (
            <span
              key={part.state}
              className={styles[part.tone]}
              data-pending={part.pending}
              style={{ width: `${(100 * count) / all}%` }}
              title={`${t.states[part.state]}: ${f.count(count)}`}
            />
          ) : null;
        })}
      </div>
      <ul role="list" className={styles.counts}>
        {SHOWN.filter((state) => state === "acknowledged" || state === "queued" || row[state] > 0).map((state) => (
          <li key={state} title={t.hints[state]}>
            <Count state={state} count={row[state]} open={state === listed} onList={onList} />
          </li>
        ))}
      </ul>
    </div>
  );
}

interface CountProps {
  state: Shown;
  count: number;
  open: boolean;
  onList: (state: Listed) => void;
}

function Count({ state, count, open, onList }: CountProps) {
  const t = useText(text);
  const f = useFormat();
  const part = PARTS.find((each) => each.state === state);
  const inside = (
    <>
      {part && <span className={`${styles.key} ${styles[part.tone]}`} data-pending={part.pending} aria-hidden="true" />}
      {t.states[state]} <strong>{f.count(count)}</strong>
    </>
  );
  if (!isListed(state) || count === 0) return <span>{inside}</span>;
  return (
    <button type="button" aria-expanded={open} onClick={() => onList(state)}>
      {inside}
    </button>
  );
}
