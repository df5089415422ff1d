/** Texts of a span one below the other, each as its kind is shown. */
import type { TextPiece } from "../../../api/shapes";
import { useFormat } from "../../../format";
import { Icon, Text, isTraceback } from "../../../parts";
import { useText } from "../../../text";
import { oneLine } from "../model/call-arguments";
import { useSessionTools } from "../session-context";
import { text } from "../text";
import styles from "./conversation.module.css";
import { LongPiece } from "./long-piece";
import { Media } from "./media";
import { text as ownText } from "./text";

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
  const own = useText(ownText);
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
          <LongPiece span={span} piece={piece} label={t.error} as={isTraceback(piece.text) ? "code" : "prose"} />
        </div>
      );
    case "prompt":
      return (
        <div className={styles.prompt}>
          <LongPiece span={span} piece={piece} label={t.prompt} as="prose" />
        </div>
      );
    case "note":
      return <Folded span={span} piece={piece} label={t.note} role={own.roles.system} />;
    case "media":
      return piece.media && <Media info={piece.media} />;
    default:
      return <LongPiece span={span} piece={piece} label={t[piece.kind]} as="prose" />;
  }
}

/** Collapsed by default. */
function Folded({ span, piece, label, role }: { span: string; piece: TextPiece; label: string; role?: string }) {
  const f = useFormat();
  const tools = useSessionTools();
  const name = `${span} ${piece.index}`;
  const open = tools.isOpen("texts", name, false);
  return (
    <div className={styles.folded}>
      <button type="button" aria-expanded={open} onClick={() => tools.toggle("texts", name, !open)}>
        <Icon name={open ? "down" : "right"} size={12} />
        <span>
          {role !== undefined && <span className={styles.role}>{role}</span>}
          {label}
        </span>
        {!open && <Text className={styles.glimpse}>{oneLine(piece.text)}</Text>}
        <span className={styles.chars}>{f.count(piece.chars)}</span>
      </button>
      {open && <LongPiece span={span} piece={piece} label={label} as="prose" />}
    </div>
  );
}

/** Something failed, and the log does not say why. */
export function NoReason() {
  const t = useText(ownText);
  return <p className={styles.noReason}>{t.noReason}</p>;
}
