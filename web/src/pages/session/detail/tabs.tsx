/** The tabs of a span: messages, call, diff, raw lines, attributes. */
import { useMemo, useState } from "react";

import type { SpanDetail, TextPiece } from "../../../api/shapes";
import { Copy, JsonView, Tabs, guessed, isTraceback, panelProps } from "../../../parts";
import { useText } from "../../../text";
import { Call } from "../conversation/call";
import { Edits } from "../conversation/edits";
import { LongPiece } from "../conversation/long-piece";
import { Media } from "../conversation/media";
import { text as ownText } from "../conversation/text";
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
        {shown === "messages" && <Texts detail={detail} kinds={["prompt", "media", "thinking", "text", "error", "note"]} />}
        {shown === "call" && <Texts detail={detail} kinds={["arguments", "result", "media", "error"]} />}
        {shown === "diff" && edit && <Edits span={detail.span_id} tool={tool} piece={edit} />}
        {shown === "lines" && <Lines lines={detail.lines} />}
        {shown === "attributes" && <Attributes detail={detail} />}
      </div>
    </>
  );
}

function labelOf(t: (typeof text)["en"], picture: string, kind: TextPiece["kind"]): string {
  if (kind === "text") return t.answer;
  return kind === "media" ? picture : t[kind];
}

function Texts({ detail, kinds }: { detail: SpanDetail; kinds: readonly TextPiece["kind"][] }) {
  const t = useText(text);
  const picture = useText(ownText).media.families.image;
  const pieces = detail.texts.filter((piece) => kinds.includes(piece.kind));
  if (pieces.length === 0) return <p className="faint">{t.noTexts}</p>;
  return pieces.map((piece) => (
    <section key={piece.index} className={styles.text} data-kind={piece.kind}>
      <h3>{labelOf(t, picture, piece.kind)}</h3>
      <Body detail={detail} piece={piece} />
    </section>
  ));
}

function Body({ detail, piece }: { detail: SpanDetail; piece: TextPiece }) {
  const t = useText(text);
  if (piece.media) return <Media info={piece.media} />;
  if (piece.kind === "arguments") return <Call span={detail.span_id} piece={piece} />;
  const label = labelOf(t, "", piece.kind);
  const code = piece.kind === "result" || (piece.kind === "error" && isTraceback(piece.text));
  const as = piece.kind === "text" ? "markdown" : code ? "code" : "prose";
  const language = piece.kind === "result" ? guessed(piece.text) : null;
  return <LongPiece span={detail.span_id} piece={piece} label={label} as={as} language={language} />;
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
