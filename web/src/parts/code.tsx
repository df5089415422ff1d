/** Text of any length, as it is: shown in pieces, so that five million characters do not stop the page. */
import { useState } from "react";

import { useFormat } from "../format";
import { useText } from "../text";
import { Button } from "./button";
import styles from "./code.module.css";
import { Copy } from "./copy";
import { Highlight } from "./highlight";
import { beginning, visible } from "./text";
import { text as words } from "./words";

interface CodeProps {
  text: string;
  /** What this is, for those who do not see it. */
  label: string;
  /** How long the whole text is, where `text` is only its beginning. */
  total?: number;
  /** Gets more of it; `text` should be longer then. */
  onMore?: () => void;
  /** More is on its way. */
  busy?: boolean;
  /** Prose: the page's own letters. */
  prose?: boolean;
  /** Copies this text instead of the shown one. */
  whole?: () => Promise<string>;
  /** Without a copy button. */
  bare?: boolean;
  /** The language of a program text: its words are coloured. */
  language?: string | null;
}

/** Characters in a piece, and pieces shown at first. */
const PIECE = 10_000;
const FIRST = 2;

/** A text in pieces of about this length, none of which splits a character. */
export function pieces(text: string, length = PIECE): string[] {
  const found: string[] = [];
  for (let start = 0; start < text.length; ) {
    const piece = beginning(text.slice(start, start + length + 1), length);
    found.push(piece);
    start += piece.length;
  }
  return found;
}

export function Code({ text, label, total, onMore, busy, prose, whole, bare, language = null }: CodeProps) {
  const t = useText(words);
  const f = useFormat();
  const [shown, setShown] = useState(FIRST * PIECE);
  const here = beginning(text, shown);
  const all = Math.max(total ?? 0, text.length);
  const hidden = here.length < text.length;
  const more = () => {
    setShown(shown * 3);
    if (shown * 3 > text.length) onMore?.();
  };
  return (
    <div className={styles.frame}>
      {/* The focus makes long texts scrollable by keyboard. */}
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <pre className={prose ? styles.prose : styles.code} dir="auto" role="group" aria-label={label} tabIndex={0}>
        {language === null ? (
          pieces(here).map((piece, index) => (
            // Pieces are only ever added at the end.
            // oxlint-disable-next-line react/no-array-index-key
            <span key={index}>
              {visible(piece)}
            </span>
          ))
        ) : (
          <Highlight text={visible(here)} language={language} />
        )}
      </pre>
      {!bare && (
        <div className={styles.copy}>
          <Copy text={whole ?? text} />
        </div>
      )}
      {(hidden || (all > text.length && onMore)) && (
        <Button small tone="quiet" busy={busy} onClick={more}>
          {t.moreChars(f.count(here.length), f.count(all))}
        </Button>
      )}
    </div>
  );
}
