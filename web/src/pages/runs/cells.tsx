/** Cells that the lists of jobs and calls share. */
import { Text, Time } from "../../parts";
import styles from "./runs.module.css";

export function When({ at }: { at: string }) {
  return (
    <span className={styles.unbroken}>
      <Time at={at} as="clock" />
    </span>
  );
}

export function Chain({ children }: { children: string | null }) {
  return (
    <div className={styles.chain}>
      <Text line mono>
        {children}
      </Text>
    </div>
  );
}

/** In the room that the other columns leave. */
export function ErrorLine({ children }: { children: string | null }) {
  if (children === null) return null;
  return (
    <div className={styles.rest}>
      <Text line>{children}</Text>
    </div>
  );
}

/** A card has no columns: there the error is below the heading. */
export function ErrorOnCard({ children }: { children: string | null }) {
  if (children === null) return null;
  return (
    <span className={styles.onCard}>
      <Text line>{children}</Text>
    </span>
  );
}
