/** A tool call as a card: arguments in one line, result, and all details when expanded. */
import { useMemo } from "react";

import type { TextPiece } from "../../../api/shapes";
import { useFormat } from "../../../format";
import { Icon, IconButton, StateMark, Text } from "../../../parts";
import { useText } from "../../../text";
import { useTexts } from "../data/use-texts";
import { summaryOf } from "../model/call-arguments";
import { editsOf } from "../model/edits";
import { useSessionTools } from "../session-context";
import { Duration } from "../span-words";
import { text } from "../text";
import styles from "./conversation.module.css";
import { Edits } from "./edits";
import type { ItemProps } from "./item";
import { LongPiece } from "./long-piece";
import { Pieces } from "./pieces";
import { Skeleton } from "./skeleton";

/** Edits up to this many characters are expanded initially. */
const SMALL_EDIT = 1500;
const PREVIEW = 400;

export function ToolItem({ spans, row }: ItemProps) {
  const { table } = spans;
  const tools = useSessionTools();
  const id = table.ids[row] ?? "";
  const tool = table.toolOf(row);
  const pieces = useTexts(id);
  const asked = pieces?.find((piece) => piece.kind === "arguments");
  const edits = useMemo(() => (asked ? editsOf(tool, asked.text) : []), [tool, asked]);
  const small = edits.length > 0 && asked !== undefined && asked.chars <= SMALL_EDIT;
  const open = tools.isOpen("texts", id, small);
  return (
    <div className={styles.card} data-status={table.statusOf(row)}>
      <ToolHead spans={spans} row={row} open={open} asked={asked} />
      {pieces === undefined && <Skeleton lines={1} />}
      {pieces && open && <Inside span={id} tool={tool} pieces={pieces} edits={edits.length > 0} />}
      {pieces && !open && <Preview pieces={pieces} />}
      <Subagent spans={spans} row={row} />
    </div>
  );
}

function ToolHead({ spans, row, open, asked }: ItemProps & { open: boolean; asked: TextPiece | undefined }) {
  const t = useText(text);
  const tools = useSessionTools();
  const { table } = spans;
  const id = table.ids[row] ?? "";
  return (
    <div className={styles.cardHead}>
      <button type="button" className={styles.cardOpener} aria-expanded={open} onClick={() => tools.toggle("texts", id, !open)}>
        <Icon name={open ? "down" : "right"} size={12} />
        <StateMark state={table.statusOf(row)} bare />
        <Text className={styles.tool}>{table.toolOf(row)}</Text>
        {asked && (
          <Text mono className={styles.glimpse} none="">
            {summaryOf(asked.text)}
          </Text>
        )}
      </button>
      <span className={styles.sums}>
        <Duration table={table} row={row} />
      </span>
      <IconButton icon="out" label={t.details} className={styles.details} onClick={() => tools.details(id)} />
    </div>
  );
}

/** The first lines of the result; of a failure complete lines. */
function Preview({ pieces }: { pieces: readonly TextPiece[] }) {
  const t = useText(text);
  const result = pieces.find((piece) => piece.kind === "error") ?? pieces.find((piece) => piece.kind === "result");
  if (!result || result.text.trim() === "") return null;
  return (
    <div className={styles.preview} data-kind={result.kind} role="group" aria-label={result.kind === "error" ? t.error : t.result}>
      <Text mono>{result.text.replace(/^\s*\n/, "").slice(0, PREVIEW)}</Text>
    </div>
  );
}

function Inside({ span, tool, pieces, edits }: { span: string; tool: string; pieces: readonly TextPiece[]; edits: boolean }) {
  const t = useText(text);
  return (
    <div className={styles.inside}>
      {pieces.map((piece) => {
        switch (piece.kind) {
          case "arguments":
            return edits ? (
              <Edits key={piece.index} span={span} tool={tool} piece={piece} />
            ) : (
              <LongPiece key={piece.index} span={span} piece={piece} label={t.arguments} as="code" />
            );
          case "result":
            return <LongPiece key={piece.index} span={span} piece={piece} label={t.result} as="code" />;
          default:
            return <Pieces key={piece.index} span={span} pieces={[piece]} />;
        }
      })}
    </div>
  );
}

function Subagent({ spans, row }: ItemProps) {
  const t = useText(text);
  const f = useFormat();
  const tools = useSessionTools();
  const { order, ids } = spans.table;
  const agent = spans.table.kindOf(order.rows[(order.position[row] ?? 0) + 1] ?? row) === "turn";
  if (!order.opens(row)) return null;
  const id = ids[row] ?? "";
  const open = tools.isOpen("spans", id, false);
  const count = (order.last[row] ?? 0) - (order.position[row] ?? 0) - 1;
  return (
    <button type="button" className={styles.subagent} aria-expanded={open} onClick={() => tools.toggle("spans", id, !open)}>
      <Icon name={open ? "down" : "right"} size={12} />
      {agent ? (open ? t.closeSubagent : t.openSubagent(f.count(count))) : open ? t.closeInside : t.openInside(f.count(count))}
    </button>
  );
}
