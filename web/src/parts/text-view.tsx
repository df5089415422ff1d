/** A short text of an agent or user. */
import type { ReactNode } from "react";

import styles from "./text-view.module.css";
import { beginning, visible } from "./text";

interface TextProps {
  children: string | null | undefined;
  /** Shown where there is no text. */
  none?: ReactNode;
  /** One line with an ellipsis; the whole text is in the title. */
  line?: boolean;
  mono?: boolean;
  className?: string;
}

const MOST = 2000;

/** Isolated, in its own direction, with invisible characters shown; long text is cut (see Code for all of it). */
export function Text({ children, none = "–", line, mono, className = "" }: TextProps) {
  if (!children) return <span className="faint">{none}</span>;
  const cut = beginning(children, MOST);
  const text = visible(cut) + (cut.length < children.length ? "…" : "");
  const classes = `${styles.text} ${line ? styles.line : ""} ${mono ? "mono" : ""} ${className}`;
  return (
    <bdi dir="auto" className={classes} title={line ? text : undefined}>
      {text}
    </bdi>
  );
}

/** The end of a path is the most informative part: the start is cut off. */
export function PathText({ children, className = "" }: { children: string; className?: string }) {
  const text = visible(children);
  return (
    <span className={`${styles.path} ${className}`} title={text}>
      <bdi dir="ltr">{text}</bdi>
    </span>
  );
}
