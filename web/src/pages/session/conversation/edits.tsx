/** The file changes of a tool call as diffs; truncated arguments are loaded completely first. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import type { TextPiece } from "../../../api/shapes";
import { Copy, DiffView, Failed, Loading, OpenFile, PathText } from "../../../parts";
import { useText } from "../../../text";
import { textPath, wholeText } from "../data/long-text";
import { charactersOf } from "../model/characters";
import { editsOf } from "../model/edits";
import { useSessionTools } from "../session-context";
import { text } from "../text";
import styles from "./conversation.module.css";
import { LongPiece } from "./long-piece";

/** Longer arguments are not compared. */
const MOST = 1_000_000;

interface EditsProps {
  span: string;
  tool: string;
  piece: TextPiece;
}

export function Edits({ span, tool, piece }: EditsProps) {
  const t = useText(text);
  const { key } = useSessionTools();
  const path = textPath(key, span, piece.index);
  const cut = charactersOf(piece.text) < piece.chars;
  const rest = useQuery({
    queryKey: [path, piece.chars, "whole"],
    queryFn: () => wholeText(path, piece, MOST),
    enabled: cut && piece.chars <= MOST,
  });
  const json = cut ? rest.data : piece.text;
  const edits = useMemo(() => (json === undefined ? [] : editsOf(tool, json)), [tool, json]);
  if (cut && piece.chars > MOST) {
    return (
      <>
        <p className="faint">{t.pane.notWhole}</p>
        <LongPiece span={span} piece={piece} label={t.arguments} as="code" />
      </>
    );
  }
  if (rest.error) return <Failed error={rest.error} retry={() => void rest.refetch()} />;
  if (json === undefined) return <Loading lines={3} />;
  return (
    <div className={styles.edits}>
      {edits.map((edit, index) => (
        // The edits of a call do not change: the index is the key.
        // oxlint-disable-next-line react/no-array-index-key
        <div key={index} className={styles.edit}>
          {edit.path !== "" && edit.path !== edits[index - 1]?.path && (
            <div className={styles.editPath}>
              <PathText>{edit.path}</PathText>
              <Copy text={edit.path} />
              <OpenFile path={edit.path} />
            </div>
          )}
          <DiffView before={edit.before} after={edit.after} numbered={edit.whole} label={`${t.pane.edited} ${edit.path}`} />
        </div>
      ))}
    </div>
  );
}
