/** How much more or less the second session has: a symbol and a sign, so that it needs no colour. */
import { useFormat } from "../../format";
import { useText } from "../../text";
import styles from "./compare.module.css";
import { text } from "./text";

interface DifferenceProps {
  a: number | null;
  b: number | null;
  /** How an amount is written. */
  show: (amount: number) => string;
  /** Less than this is nothing. */
  least?: number;
  /** Without the share. */
  short?: boolean;
}

export function Difference({ a, b, show, least = 0, short }: DifferenceProps) {
  const t = useText(text);
  const f = useFormat();
  if (a === null || b === null) return <span className="faint">?</span>;
  const by = b - a;
  if (Math.abs(by) <= least) {
    return (
      <span className={styles.same} title={t.same}>
        =
      </span>
    );
  }
  const amount = show(Math.abs(by));
  return (
    <span className={styles.difference} title={by > 0 ? t.more(amount) : t.less(amount)}>
      {a > 0 && !short && <span className={styles.share}>{`${by > 0 ? "+" : "−"}${f.percent(Math.abs(by), a)}`}</span>}
      <span>{by > 0 ? `▲ +${amount}` : `▼ −${amount}`}</span>
    </span>
  );
}
