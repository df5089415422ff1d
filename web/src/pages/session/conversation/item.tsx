/** One span of the conversation. */
import { memo } from "react";

import type { Spans } from "../data/use-spans";
import styles from "./conversation.module.css";
import { SpanItem } from "./span-item";
import { StepItem } from "./step-item";
import { ToolItem } from "./tool-item";
import { TurnItem } from "./turn-item";

export interface ItemProps {
  spans: Spans;
  row: number;
}

/** Turns, model calls and tools make three levels; what lies below them is the work of a subagent. */
const LEVELS = 3;
const DEEPEST = 5;

export const Item = memo(function Item({ spans, row }: ItemProps) {
  const kind = spans.table.kindOf(row);
  const nesting = Math.min(Math.floor((spans.table.order.depth[row] ?? 0) / LEVELS), DEEPEST);
  return (
    <div className={styles.item} data-kind={kind} data-nested={nesting || undefined} style={{ marginInlineStart: `${nesting * 1.25}rem` }}>
      {kind === "turn" && <TurnItem spans={spans} row={row} />}
      {kind === "step" && <StepItem spans={spans} row={row} />}
      {kind === "tool" && <ToolItem spans={spans} row={row} />}
      {kind === "span" && <SpanItem spans={spans} row={row} />}
    </div>
  );
});
