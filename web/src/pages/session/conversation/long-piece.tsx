/** A text of a span: its beginning, and the rest on request. */
import type { TextPiece } from "../../../api/shapes";
import { Code, Failed, Markdown } from "../../../parts";
import { useText } from "../../../text";
import { useLongText } from "../data/long-text";
import { useSessionTools } from "../session-context";
import { text } from "../text";

interface LongPieceProps {
  span: string;
  piece: TextPiece;
  label: string;
  as: "markdown" | "prose" | "code";
  language?: string | null;
}

export function LongPiece({ span, piece, label, as, language }: LongPieceProps) {
  const t = useText(text);
  const { key } = useSessionTools();
  const long = useLongText(key, span, piece);
  const props = { text: long.text, total: long.total, label, onMore: long.onMore, busy: long.busy };
  return (
    <>
      {as === "markdown" ? <Markdown {...props} /> : <Code {...props} prose={as === "prose"} bare={as === "prose"} whole={long.whole} language={language} />}
      {long.error ? <Failed error={long.error} title={t.loadFailed} retry={long.onMore} /> : null}
    </>
  );
}
