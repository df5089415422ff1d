/** A span on the time axis: position, kind and state. */
import { useFormat } from "../../../format";
import { Icon } from "../../../parts";
import { useText } from "../../../text";
import type { SpanTable } from "../model/span-table";
import { text } from "../text";
import type { Window } from "./use-scale";
import styles from "./waterfall.module.css";

interface BarProps {
  table: SpanTable;
  row: number;
  window: Window;
  now: number;
}

/** A bar that ends before this share of the window has its duration on its right, else on its left. */
const ROOM = 0.82;

export function Bar({ table, row, window: view, now }: BarProps) {
  const t = useText(text);
  const f = useFormat();
  const start = table.start[row] ?? 0;
  const end = table.endOf(row, now);
  const [left, right] = [view.at(start), view.at(end)];
  if (right < 0) return <span className={styles.outside} data-side="before" aria-hidden="true" />;
  if (left > 1) return <span className={styles.outside} data-side="after" aria-hidden="true" />;
  const [from, to] = [Math.max(left, 0), Math.min(right, 1)];
  const status = table.statusOf(row);
  const length = f.duration(end - start);
  return (
    <>
      <span
        className={styles.bar}
        data-kind={table.kindOf(row)}
        data-status={status}
        data-cut={right > 1 || undefined}
        style={{ left: `${from * 100}%`, width: `max(3px, ${(to - from) * 100}%)` }}
        title={`${t.kinds[table.kindOf(row)]}: ${length}`}
      >
        {status === "error" && <Icon name="warn" size={12} />}
      </span>
      <span
        className={styles.length}
        aria-hidden="true"
        style={to < ROOM ? { left: `calc(${to * 100}% + 6px)` } : { right: `calc(${(1 - from) * 100}% + 6px)` }}
      >
        {to < ROOM || from > 1 - ROOM ? length : ""}
      </span>
    </>
  );
}
