/** A word or a count in a little frame. */
import type { ReactNode } from "react";

import styles from "./badge.module.css";

export type Tone = "plain" | "working" | "waiting" | "failed" | "accent" | "money";

interface BadgeProps {
  tone?: Tone;
  title?: string;
  children: ReactNode;
}

export function Badge({ tone = "plain", title, children }: BadgeProps) {
  return (
    <span className={`${styles.badge} ${styles[tone]}`} title={title}>
      {children}
    </span>
  );
}
