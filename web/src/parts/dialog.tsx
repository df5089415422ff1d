/** Dialogs: the browser's dialog element traps the focus and restores it. */
import type { ReactNode } from "react";
import { useEffect, useId, useRef } from "react";

import { useText } from "../text";
import { Button, IconButton } from "./button";
import styles from "./dialog.module.css";
import { Failed } from "./states";
import { text } from "./words";

interface DialogProps {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  /** Buttons at the bottom. */
  actions?: ReactNode;
  wide?: boolean;
  children: ReactNode;
}

export function Dialog(props: DialogProps) {
  return <Modal {...props} className={props.wide ? styles.wide : styles.dialog} />;
}

/** At the end of the window, or at its bottom on narrow screens: details of something in a list. */
export function Drawer(props: DialogProps) {
  return <Modal {...props} className={styles.drawer} />;
}

function Modal({ open, onClose, title, actions, className, children }: DialogProps & { className?: string }) {
  const t = useText(text);
  const id = useId();
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    if (open && dialog && !dialog.open) dialog.showModal();
    if (!open) dialog?.close();
  }, [open]);
  return (
    // Escape is the keyboard's way; a click on the veil is one more.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions, jsx-a11y/click-events-have-key-events
    <dialog
      ref={element}
      aria-labelledby={id}
      className={className}
      onClose={() => open && onClose()}
      onClick={(event) => event.target === element.current && onClose()}
    >
      {open && (
        <div className={styles.inside}>
          <header>
            <h2 id={id}>{title}</h2>
            <IconButton icon="close" label={t.close} onClick={onClose} />
          </header>
          <div className={styles.body}>{children}</div>
          {actions && <footer>{actions}</footer>}
        </div>
      )}
    </dialog>
  );
}

interface ConfirmProps {
  open: boolean;
  title: string;
  /** What will happen. */
  children: ReactNode;
  /** The word on the button that does it. */
  yes: string;
  danger?: boolean;
  busy?: boolean;
  error?: unknown;
  onYes: () => void;
  onClose: () => void;
}

/** Asks for confirmation. */
export function Confirm({ open, title, children, yes, danger, busy, error, onYes, onClose }: ConfirmProps) {
  const t = useText(text);
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title={title}
      actions={
        <>
          <Button onClick={onClose}>{t.back}</Button>
          <Button tone={danger ? "danger" : "main"} busy={busy} onClick={onYes}>
            {yes}
          </Button>
        </>
      }
    >
      {children}
      {error ? <Failed error={error} title={title} /> : null}
    </Dialog>
  );
}
