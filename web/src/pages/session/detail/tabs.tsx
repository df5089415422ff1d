/** The tabs of a span: messages, call, diff, raw lines, attributes. */
import { useMemo, useState } from "react";

import type { SpanDetail, TextPiece } from "../../../api/shapes";
import { Copy, JsonView, Tabs, panelProps, parsed } from "../../../parts";
import { useText } from "../../../text";
import { Edits } from "../conversation/edits";
import { LongPiece } from "../conversation/long-piece";
import { charactersOf } from "../model/characters";
import { changesFiles } from "../model/edits";
import { text } from "../text";
import { Lines } from "./lines";
import styles from "./pane.module.css";

type TabName = "messages" | "call" | "diff" | "lines" | "attributes";

function tabsOf(detail: SpanDetail, edit: TextPiece | undefined): TabName[] {
  // Other spans have no messages: input, output and attributes are shown.
  if (detail.kind === "span") return detail.texts.length > 0 ? ["call", "attributes", "lines"] : ["attributes", "lines"];
  const kinds = new Set(detail.texts.map((piece) => piece.kind));
  const first: TabName[] = detail.kind === "tool" || kinds.has("arguments") ? ["call"] : [];
  const said = detail.kind !== "tool" || kinds.has("text") || kinds.has("note") ? (["messages"] as const) : [];
  return [...(edit ? (["diff"] as const) : []), ...said, ...first, "lines", "attributes"];
}

export function PaneTabs({ detail }: { detail: SpanDetail }) {
  const t = useText(text).pane;
  const tool = detail.kind === "tool" ? detail.name.replace(/^execute_tool /, "") : "";
  const edit = useMemo(() => detail.texts.find((piece) => piece.kind === "arguments" && changesFiles(tool, piece.text)), [detail, tool]);
  const tabs = tabsOf(detail, edit);
  const [wanted, setWanted] = useState<TabName | null>(null);
  const shown = tabs.find((tab) => tab === wanted) ?? tabs[0] ?? "lines";
  return (
    <>
      <Tabs
        id="span"
        label={t.label}
        value={shown}
        onChange={setWanted}
        choices={tabs.map((tab) => ({ value: tab, label: t.tabs[tab], title: tab === "call" ? t.callHint : undefined }))}
      />
      <div {...panelProps("span", shown)} className={styles.panel}>
        {shown === "messages" && <Texts detail={detail} kinds={["prompt", "thinking", "text", "error", "note"]} />}
        {shown === "call" && <Texts detail={detail} kinds={["arguments", "result", "error"]} />}
        {shown === "diff" && edit && <Edits span={detail.span_id} tool={tool} piece={edit} />}
        {shown === "lines" && <Lines lines={detail.lines} />}
        {shown === "attributes" && <Attributes detail={detail} />}
      </div>
    </>
  );
}

function Texts({ detail, kinds }: { detail: SpanDetail; kinds: readonly TextPiece["kind"][] }) {
  const t = useText(text);
  const pieces = detail.texts.filter((piece) => kinds.includes(piece.kind));
  if (pieces.length === 0) return <p className="faint">{t.noTexts}</p>;
  return pieces.map((piece) => (
    <section key={piece.index} className={styles.text} data-kind={piece.kind}>
      <h3>{piece.kind === "text" ? t.answer : t[piece.kind]}</h3>
      <Body detail={detail} piece={piece} />
    </section>
  ));
}

function Body({ detail, piece }: { detail: SpanDetail; piece: TextPiece }) {
  const t = useText(text);
  const whole = charactersOf(piece.text) >= piece.chars;
  const value = useMemo(() => (piece.kind === "arguments" && whole ? parsed(piece.text) : undefined), [piece, whole]);
  if (typeof value === "object" && value !== null) {
    return (
      <div className={styles.json}>
        <JsonView value={value} />
        <Copy text={piece.text} />
      </div>
    );
  }
  const label = piece.kind === "text" ? t.answer : t[piece.kind];
  const as = piece.kind === "text" ? "markdown" : piece.kind === "arguments" || piece.kind === "result" ? "code" : "prose";
  return <LongPiece span={detail.span_id} piece={piece} label={label} as={as} />;
}

function Attributes({ detail }: { detail: SpanDetail }) {
  const all = { span_id: detail.span_id, trace_id: detail.trace_id, parent_id: detail.parent_id, name: detail.name, ...detail.attributes };
  return (
    <div className={styles.json}>
      <JsonView value={all} />
      <Copy text={() => JSON.stringify(all, null, 2)} />
    </div>
  );
}
