/** Texts of a span one below the other, each as its kind is shown. */
import type { TextPiece } from "../../../api/shapes";
import { useFormat } from "../../../format";
import { Icon, Text } from "../../../parts";
import { useText } from "../../../text";
import { oneLine } from "../model/call-arguments";
import { useSessionTools } from "../session-context";
import { text } from "../text";
import styles from "./conversation.module.css";
import { LongPiece } from "./long-piece";

interface PiecesProps {
  span: string;
  pieces: readonly TextPiece[];
  /** The answers are read below. */
  foldAnswers?: boolean;
}

export function Pieces({ span, pieces, foldAnswers = false }: PiecesProps) {
  return pieces.map((piece) => <OnePiece key={piece.index} span={span} piece={piece} fold={foldAnswers} />);
}

function OnePiece({ span, piece, fold }: { span: string; piece: TextPiece; fold: boolean }) {
  const t = useText(text);
  const { hideThinking } = useSessionTools();
  switch (piece.kind) {
    case "thinking":
      return hideThinking ? null : <Folded span={span} piece={piece} label={t.thinking} />;
    case "text":
      return fold ? (
        <Folded span={span} piece={piece} label={t.answer} />
      ) : (
        <div className={styles.answer}>
          <LongPiece span={span} piece={piece} label={t.answer} as="markdown" />
        </div>
      );
    case "error":
      return (
        <div className={styles.error} role="group" aria-label={t.error}>
          <LongPiece span={span} piece={piece} label={t.error} as="prose" />
        </div>
      );
    case "prompt":
      return (
        <div className={styles.prompt}>
          <LongPiece span={span} piece={piece} label={t.prompt} as="prose" />
        </div>
      );
    case "note":
      return <Folded span={span} piece={piece} label={t.note} />;
    default:
      return <LongPiece span={span} piece={piece} label={t[piece.kind]} as="prose" />;
  }
}

/** Collapsed by default. */
function Folded({ span, piece, label }: { span: string; piece: TextPiece; label: string }) {
  const f = useFormat();
  const tools = useSessionTools();
  const name = `${span} ${piece.index}`;
  const open = tools.isOpen("texts", name, false);
  return (
    <div className={styles.folded}>
      <button type="button" aria-expanded={open} onClick={() => tools.toggle("texts", name, !open)}>
        <Icon name={open ? "down" : "right"} size={12} />
        <span>{label}</span>
        {!open && <Text className={styles.glimpse}>{oneLine(piece.text)}</Text>}
        <span className={styles.chars}>{f.count(piece.chars)}</span>
      </button>
      {open && <LongPiece span={span} piece={piece} label={label} as="prose" />}
    </div>
  );
}
