/** Loads the rest of a text. */
import { useCallback, useEffect, useRef, useState } from "react";

import { get } from "../../../api/client";
import type { TextPart, TextPiece } from "../../../api/shapes";
import { charactersOf } from "../model/characters";

/** Characters in one answer. */
const PART = 100_000;

export interface LongText {
  text: string;
  total: number;
  /** Gets more of it; undefined where all of it is here. */
  onMore: (() => void) | undefined;
  busy: boolean;
  error: unknown;
  /** The complete text, including parts that are not loaded yet. */
  whole: () => Promise<string>;
}

/** The address of a text. */
export function textPath(session: string, span: string, index: number): string {
  return `/sessions/${session}/spans/${span}/texts/${index}`;
}

/** The text from its beginning on, until it ends or the limit is reached. */
export async function wholeText(path: string, piece: TextPiece, limit = Number.POSITIVE_INFINITY): Promise<string> {
  let text = piece.text;
  let start = charactersOf(text);
  while (start < Math.min(piece.chars, limit)) {
    const part = await get<TextPart>(path, { start, chars: PART });
    if (part.text === "") break;
    text += part.text;
    start += charactersOf(part.text);
  }
  return text;
}

export function useLongText(session: string, span: string, piece: TextPiece): LongText {
  const [more, setMore] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const shown = useRef(piece);
  useEffect(() => {
    // The text has changed: the rest of the previous one does not belong to it.
    if (shown.current.text === piece.text && shown.current.index === piece.index) return;
    shown.current = piece;
    setMore("");
  }, [piece]);
  const text = piece.text + more;
  const have = charactersOf(piece.text) + charactersOf(more);
  const path = textPath(session, span, piece.index);
  const load = useCallback(() => {
    setBusy(true);
    get<TextPart>(path, { start: have, chars: PART })
      .then(
        (part) => {
          setMore((before) => before + part.text);
          setError(null);
        },
        (failed: unknown) => setError(failed),
      )
      .finally(() => setBusy(false));
  }, [path, have]);
  const whole = useCallback(() => wholeText(path, piece), [path, piece]);
  return { text, total: piece.chars, onMore: have < piece.chars ? load : undefined, busy, error, whole };
}
