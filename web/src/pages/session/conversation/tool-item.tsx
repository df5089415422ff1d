/** A tool call as a card: arguments in one line, result, and all details when expanded. */
import { useMemo } from "react";

import type { TextPiece } from "../../../api/shapes";
import { useFormat } from "../../../format";
import { Icon, IconButton, StateMark, Text, guessed, languageOf } from "../../../parts";
import { useText } from "../../../text";
import { useTexts } from "../data/use-texts";
import { fieldsOf, summaryOf } from "../model/call-arguments";
import { editsOf } from "../model/edits";
import { useSessionTools } from "../session-context";
import { Duration } from "../span-words";
import { text } from "../text";
import { Call } from "./call";
import styles from "./conversation.module.css";
import { Edits } from "./edits";
import type { ItemProps } from "./item";
import { LongPiece } from "./long-piece";
import { Media } from "./media";
import { NoReason, Pieces } from "./pieces";
import { Skeleton } from "./skeleton";
import { text as ownText } from "./text";

/** Edits up to this many characters are expanded initially. */
const SMALL_EDIT = 1500;
const PREVIEW = 400;
/** Tools whose result is the file. */
const READS = /(?:^|_)(?:read|view|cat|open)/i;
const PATHS = ["file_path", "path", "absolute_path", "filePath", "notebook_path"];

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
      {pieces && table.statusOf(row) === "error" && !pieces.some(saysWhy) && <NoReason />}
      <Subagent spans={spans} row={row} />
    </div>
  );
}

/** Whether a text of a failed call tells what happened. */
function saysWhy(piece: TextPiece): boolean {
  return (piece.kind === "error" || piece.kind === "result") && piece.text.trim() !== "";
}

function ToolHead({ spans, row, open, asked }: ItemProps & { open: boolean; asked: TextPiece | undefined }) {
  const t = useText(text);
  const own = useText(ownText);
  const tools = useSessionTools();
  const { table } = spans;
  const id = table.ids[row] ?? "";
  return (
    <div className={styles.cardHead}>
      <button type="button" className={styles.cardOpener} aria-expanded={open} onClick={() => tools.toggle("texts", id, !open)}>
        <Icon name={open ? "down" : "right"} size={12} />
        <StateMark state={table.statusOf(row)} bare />
        <span className={styles.role} data-role="tool">
          {own.roles.tool}
        </span>
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

/** The first lines of the result, and its pictures; of a failure complete lines. */
function Preview({ pieces }: { pieces: readonly TextPiece[] }) {
  const t = useText(text);
  const result = pieces.find((piece) => piece.kind === "error") ?? pieces.find((piece) => piece.kind === "result");
  return (
    <>
      {result && result.text.trim() !== "" && (
        <div className={styles.preview} data-kind={result.kind} role="group" aria-label={result.kind === "error" ? t.error : t.result}>
          <Text mono>{result.text.replace(/^\s*\n/, "").slice(0, PREVIEW)}</Text>
        </div>
      )}
      {pieces.map((piece) => piece.media && <div key={piece.index} className={styles.previewMedia}><Media info={piece.media} /></div>)}
    </>
  );
}

/** The language of a result: that of the file that was read, or what it looks like. */
function resultLanguage(tool: string, asked: TextPiece | undefined, result: string): string | null {
  const fields = asked && READS.test(tool) ? fieldsOf(asked.text) : null;
  const path = PATHS.map((name) => fields?.[name]).find((value) => typeof value === "string");
  return (typeof path === "string" ? languageOf(path) : null) ?? guessed(result);
}

function Inside({ span, tool, pieces, edits }: { span: string; tool: string; pieces: readonly TextPiece[]; edits: boolean }) {
  const t = useText(text);
  const asked = pieces.find((piece) => piece.kind === "arguments");
  return (
    <div className={styles.inside}>
      {pieces.map((piece) => {
        switch (piece.kind) {
          case "arguments":
            return edits ? <Edits key={piece.index} span={span} tool={tool} piece={piece} /> : <Call key={piece.index} span={span} piece={piece} />;
          case "result":
            return (
              <LongPiece key={piece.index} span={span} piece={piece} label={t.result} as="code" language={resultLanguage(tool, asked, piece.text)} />
            );
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
