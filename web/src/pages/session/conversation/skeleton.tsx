/** Placeholder lines for texts that are loading, about as high as the texts. */
import styles from "./conversation.module.css";

export function Skeleton({ lines }: { lines: number }) {
  return (
    <div className={styles.skeleton} aria-hidden="true">
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} style={{ width: `${85 - ((line * 31) % 45)}%` }} />
      ))}
    </div>
  );
}
