/** A small panel below a button: menus and filters. Escape, a click elsewhere and leaving with Tab close it. */
import type { FocusEvent, KeyboardEvent, ReactNode } from "react";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "react";

import styles from "./popup.module.css";

interface PopupProps {
  /** The button's inside. */
  button: ReactNode;
  /** Read out for the button, where its inside is not enough. */
  label?: string;
  /** Of the button. */
  className?: string;
  /** Without a frame: among the tools of the header. */
  quiet?: boolean;
  /** Marked as set, for instance a filter with a choice. */
  set?: boolean;
  /** On which side the panel is flush with the button. */
  side?: "start" | "end";
  children: (close: () => void) => ReactNode;
}

export function Popup({ button, label, className = "", quiet, set, side = "start", children }: PopupProps) {
  const [open, setOpen] = useState(false);
  const id = useId();
  const whole = useRef<HTMLDivElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const close = () => {
    setOpen(false);
    opener.current?.focus();
  };
  useEffect(() => {
    if (!open) return undefined;
    const elsewhere = (event: PointerEvent) => {
      if (event.target instanceof Node && !whole.current?.contains(event.target)) setOpen(false);
    };
    document.addEventListener("pointerdown", elsewhere);
    return () => document.removeEventListener("pointerdown", elsewhere);
  }, [open]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !open) return;
    event.preventDefault();
    event.stopPropagation();
    close();
  };
  const onBlur = (event: FocusEvent) => {
    if (event.relatedTarget instanceof Node && !whole.current?.contains(event.relatedTarget)) setOpen(false);
  };
  return (
    // The keys are those of the controls inside, which are reached with Tab.
    // oxlint-disable-next-line jsx-a11y/no-static-element-interactions
    <div className={styles.popup} ref={whole} onKeyDown={onKeyDown} onBlur={onBlur}>
      <button
        type="button"
        ref={opener}
        className={`${styles.opener} ${className}`}
        data-quiet={quiet || undefined}
        data-set={set || undefined}
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        aria-label={label}
        title={label}
        onClick={() => setOpen(!open)}
      >
        {button}
      </button>
      {open && (
        <Panel id={id} side={side}>
          {children(close)}
        </Panel>
      )}
    </div>
  );
}

const MARGIN = 8;

/** The panel; moved where it would not be inside the window. */
function Panel({ id, side, children }: { id: string; side: "start" | "end"; children: ReactNode }) {
  const panel = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = panel.current;
    if (!element) return;
    const { left, right } = element.getBoundingClientRect();
    const inside = document.documentElement.clientWidth - MARGIN;
    const shift = right > inside ? inside - right : Math.max(MARGIN - left, 0);
    element.style.translate = `${shift}px`;
  }, []);
  return (
    <div id={id} ref={panel} className={styles.panel} data-side={side}>
      {children}
    </div>
  );
}
