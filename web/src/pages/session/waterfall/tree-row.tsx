/** A span as a row: its name and figures at the start, its bar in time at the end. */
import { memo } from "react";

import { useFormat } from "../../../format";
import { Icon, ModelName, StateMark, Text } from "../../../parts";
import { useText } from "../../../text";
import type { Spans } from "../data/use-spans";
import { useTexts } from "../data/use-texts";
import { oneLine, summaryOf } from "../model/call-arguments";
import { Duration, SpanCost, SumCost } from "../span-words";
import { text } from "../text";
import { Bar } from "./bar";
import type { Window } from "./use-scale";
import styles from "./waterfall.module.css";

interface TreeRowProps {
  spans: Spans;
  row: number;
  window: Window;
  now: number;
  open: boolean;
  onToggle: (row: number) => void;
}

/** The text that represents a span. */
const SAID = { turn: "prompt", step: "text", tool: "arguments", span: "arguments" } as const;
const INDENT = 0.875;
const DEEPEST = 12;

export const TreeRow = memo(function TreeRow({ spans, row, window: view, now, open, onToggle }: TreeRowProps) {
  const t = useText(text);
  const f = useFormat();
  const { table, sums } = spans;
  const kind = table.kindOf(row);
  const sum = kind === "turn" ? sums.of(row) : null;
  const input = sum ? sum.input : (table.input[row] ?? Number.NaN);
  const output = sum ? sum.output : table.output[row] || 0;
  return (
    <>
      <div role="gridcell" className={styles.nameCell}>
        <span style={{ width: `${Math.min(table.order.depth[row] ?? 0, DEEPEST) * INDENT}rem` }} className={styles.indent} />
        {table.order.opens(row) ? (
          // The arrow keys of the grid do the same.
          <button type="button" tabIndex={-1} className={styles.fold} aria-label={open ? t.close : t.open} onClick={() => onToggle(row)}>
            <Icon name={open ? "down" : "right"} size={12} />
          </button>
        ) : (
          <span className={styles.fold} />
        )}
        <span className={styles.kind} data-kind={kind} title={t.kinds[kind]} />
        {table.statusOf(row) !== "ok" && <StateMark state={table.statusOf(row)} bare />}
        <Label spans={spans} row={row} />
      </div>
      <div role="gridcell" className={styles.figure} data-sum={sum ? true : undefined} title={sum ? t.rollUp : undefined}>
        {!Number.isNaN(input) && input + output > 0 ? f.tokens(input + output) : ""}
      </div>
      <div role="gridcell" className={styles.money} data-sum={sum ? true : undefined} title={sum ? t.rollUp : undefined}>
        {sum ? <SumCost sums={sum} /> : kind === "step" && <SpanCost table={table} row={row} />}
      </div>
      <div role="gridcell" className={styles.figure}>
        <Duration table={table} row={row} />
      </div>
      <div role="gridcell" className={styles.barCell}>
        <Bar table={table} row={row} window={view} now={now} />
      </div>
    </>
  );
});

/** The name of a span at once, and its text when it is loaded. */
function Label({ spans, row }: { spans: Spans; row: number }) {
  const t = useText(text);
  const f = useFormat();
  const { table } = spans;
  const pieces = useTexts(table.ids[row] ?? "");
  const kind = table.kindOf(row);
  const said = pieces?.find((piece) => piece.kind === SAID[kind]);
  const other = pieces?.find((piece) => piece.kind === "thinking");
  const line = said ? (SAID[kind] === "arguments" ? summaryOf(said.text) : oneLine(said.text)) : oneLine(other?.text ?? "");
  const title = table.titleOf(row);
  const name = kind === "turn" ? turnName() : kind === "step" ? t.modelCall : table.toolOf(row) || title;
  const model = kind === "step" ? table.models[row] : null;
  function turnName(): string {
    if (table.inner(row)) return title;
    const number = f.count((table.turn[row] ?? 0) + 1);
    return table.nested(row) ? t.subagentTurn(number) : t.turn(number);
  }
  return (
    <span className={styles.label}>
      {model ? <ModelName id={model} className={styles.name} /> : <Text className={styles.name}>{name}</Text>}
      {(line || (kind === "turn" && title !== name)) && <Text className={styles.line}>{line || title}</Text>}
    </span>
  );
}
