/** The rest of a text whose beginning is here. */
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
  /** All of it, also what is not here yet. */
  whole: () => Promise<string>;
}

/** Where a text can be asked for. */
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
    // The text is another one now: the rest of the former one does not belong to it.
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
