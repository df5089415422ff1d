/** The box to write in. */
import type { KeyboardEvent, RefObject } from "react";
import { useId } from "react";

import { useFormat } from "../../format";
import { Button } from "../../parts";
import { useText } from "../../text";
import styles from "./chat.module.css";
import { text } from "./text";

/** The maximum that the server accepts. */
const MOST = 8000;
const TELL_FROM = 500;

interface ComposerProps {
  typed: string;
  onType: (typed: string) => void;
  answering: boolean;
  /** A required value is missing. */
  blocked: boolean;
  onSend: () => void;
  onStop: () => void;
  box: RefObject<HTMLTextAreaElement | null>;
}

export function Composer({ typed, onType, answering, blocked, onSend, onStop, box }: ComposerProps) {
  const t = useText(text);
  const f = useFormat();
  const hint = useId();
  const ready = typed.trim() !== "" && !answering && !blocked;
  const press = (event: KeyboardEvent) => {
    if (event.key === "Escape" && answering) {
      event.preventDefault();
      onStop();
    }
    // While a word is being put together, Enter chooses among its spellings.
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    if (ready) onSend();
  };
  return (
    <form
      className={styles.composer}
      onSubmit={(event) => {
        event.preventDefault();
        if (ready) onSend();
      }}
    >
      <textarea
        ref={box}
        aria-label={t.message}
        aria-describedby={hint}
        placeholder={t.placeholder}
        rows={2}
        maxLength={MOST}
        dir="auto"
        enterKeyHint="send"
        value={typed}
        onChange={(event) => onType(event.target.value)}
        onKeyDown={press}
      />
      {answering ? (
        <Button tone="danger" icon="stop" onClick={onStop}>
          {t.stop}
        </Button>
      ) : (
        <Button tone="main" icon="send" type="submit" disabled={!ready}>
          {t.send}
        </Button>
      )}
      <p id={hint} className={styles.keys}>
        {typed.length > MOST - TELL_FROM ? t.left(f.count(MOST - typed.length)) : t.keys}
      </p>
    </form>
  );
}
