/** The share of a total: a bar with its number. */
import styles from "./share-bar.module.css";

interface ShareBarProps {
  /** From 0 to 1. */
  share: number;
  /** A colour of the style sheet; that of a model is `modelCss`. */
  colour?: string;
}

export function ShareBar({ share, colour = "var(--series-1)" }: ShareBarProps) {
  return (
    <span className={styles.bar} aria-hidden="true">
      <span style={{ width: `${Math.min(Math.max(share, 0), 1) * 100}%`, background: colour }} />
    </span>
  );
}
