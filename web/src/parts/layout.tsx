/** The layout of a page: heading, sections, figures. */
import type { ReactNode } from "react";
import { useEffect, useId, useRef } from "react";

import type { Tone } from "./badge";
import styles from "./layout.module.css";
import { visible } from "./text";

interface PageProps {
  /** The heading, and the title of the window unless `windowTitle` is given. */
  title: ReactNode;
  windowTitle?: string;
  /** Below the heading. */
  note?: ReactNode;
  /** Next to the heading. */
  actions?: ReactNode;
  /** As high as the window: parts inside scroll, not the page. */
  full?: boolean;
  children: ReactNode;
}

/** A page: its heading takes the focus when one comes from another page. */
export function Page({ title, windowTitle, note, actions, full, children }: PageProps) {
  useTitle(windowTitle ?? (typeof title === "string" ? title : undefined));
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // The shell has set the focus to the container of the page.
    if (document.activeElement?.tagName === "MAIN") heading.current?.focus({ preventScroll: true });
  }, []);
  return (
    <div className={full ? styles.full : styles.page} data-full={full}>
      <header className={styles.head}>
        <div className={styles.heading}>
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {note && <div className={styles.note}>{note}</div>}
        </div>
        {actions && <div className={styles.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  );
}

/** The title of the window. */
export function useTitle(title: string | undefined): void {
  useEffect(() => {
    document.title = title ? `${visible(title).slice(0, 120)} · AgentTrace` : "AgentTrace";
  }, [title]);
}

interface SectionProps {
  title?: ReactNode;
  note?: ReactNode;
  actions?: ReactNode;
  /** Without frame and background. */
  open?: boolean;
  className?: string;
  children: ReactNode;
}

/** A part of a page with a heading. */
export function Section({ title, note, actions, open, className = "", children }: SectionProps) {
  const id = useId();
  return (
    <section aria-labelledby={title ? id : undefined} className={`${open ? styles.open : styles.section} ${className}`}>
      {(title || actions) && (
        <div className={styles.sectionHead}>
          {title && <h2 id={id}>{title}</h2>}
          {note && <span className="faint">{note}</span>}
          {actions && <div className={styles.actions}>{actions}</div>}
        </div>
      )}
      {children}
    </section>
  );
}

/** Sections side by side if there is room. */
export function Grid({ min = "20rem", children }: { min?: string; children: ReactNode }) {
  return (
    <div className={styles.grid} style={{ gridTemplateColumns: `repeat(auto-fit, minmax(min(${min}, 100%), 1fr))` }}>
      {children}
    </div>
  );
}

/** A row of controls that wraps: filters above a list. */
export function Bar({ label, children }: { label?: string; children: ReactNode }) {
  return (
    <div className={styles.bar} role={label ? "group" : undefined} aria-label={label}>
      {children}
    </div>
  );
}

interface StatProps {
  label: ReactNode;
  value: ReactNode;
  note?: ReactNode;
  tone?: Tone;
  title?: string;
}

/** A figure with its name; several of them inside Stats. */
export function Stat({ label, value, note, tone = "plain", title }: StatProps) {
  return (
    <div className={styles.stat} title={title}>
      <dt>{label}</dt>
      <dd className={styles[tone]}>{value}</dd>
      {note && <dd className={styles.statNote}>{note}</dd>}
    </div>
  );
}

export function Stats({ children }: { children: ReactNode }) {
  return <dl className={styles.stats}>{children}</dl>;
}

/** Names and values in two columns; values that are undefined are left out. */
export function Facts({ facts }: { facts: readonly (readonly [ReactNode, ReactNode | undefined])[] }) {
  return (
    <dl className={styles.facts}>
      {facts.map(([name, value], index) =>
        value === undefined ? null : (
          // The order of facts does not change while they are shown.
          // oxlint-disable-next-line react/no-array-index-key
          <div key={index}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}
