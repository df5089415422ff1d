/** The share of a total: a bar with its number. */
import styles from "./share-bar.module.css";

interface ShareBarProps {
  /** From 0 to 1. */
  share: number;
  /** The number of its colour among the series of a chart, counted from 1. */
  series?: number;
}

export function ShareBar({ share, series = 1 }: ShareBarProps) {
  return (
    <span className={styles.bar} aria-hidden="true">
      <span style={{ width: `${Math.min(Math.max(share, 0), 1) * 100}%`, background: `var(--series-${series})` }} />
    </span>
  );
}
