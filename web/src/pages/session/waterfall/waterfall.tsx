/** The session in time: a tree of spans at the start, their bars at the end, all of it in small above. */
import { useVirtualizer } from "@tanstack/react-virtual";
import type { KeyboardEvent } from "react";
import { useCallback, useEffect, useMemo, useRef } from "react";

import { useText } from "../../../text";
import type { TextCache } from "../data/text-cache";
import type { Spans } from "../data/use-spans";
import type { View } from "../data/use-view";
import { TextsContext, useWanted } from "../data/use-texts";
import { useSessionTools } from "../session-context";
import { extentInView } from "../model/rows";
import { text } from "../text";
import { Axis, Grid } from "./axis";
import { Flame, isAggregated } from "./flame";
import { Minimap } from "./minimap";
import { TreeRow } from "./tree-row";
import { usePan } from "./use-pan";
import { useThrottled } from "./use-throttled";
import type { Window } from "./use-scale";
import { useWidth } from "./use-width";
import styles from "./waterfall.module.css";

interface WaterfallProps {
  spans: Spans;
  rows: Int32Array;
  cache: TextCache;
  window: Window;
  now: number;
  current: number;
  jump: number;
  onCurrent: (row: number) => void;
  view: View;
  /** Goes to a span. */
  onGo: (id: string) => void;
}

/** While rows are scrolled, the window follows in steps of so many milliseconds: each draws all of them anew. */
const FOLLOW = 100;
const ROW = 24;
const HEAD = 27;

export function Waterfall({ spans, rows, cache, window: time, now, current, jump, onCurrent, view, onGo }: WaterfallProps) {
  const t = useText(text);
  const tools = useSessionTools();
  const { table } = spans;
  const scroller = useRef<HTMLDivElement>(null);
  const timeHead = useRef<HTMLDivElement>(null);
  const width = useWidth(timeHead);
  // The same function for the same rows: a new one would recompute all positions.
  const getItemKey = useCallback((index: number) => rows[index] ?? -1, [rows]);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    getItemKey,
    overscan: 8,
    // The heading stays above the rows and takes that much from them.
    scrollPaddingEnd: HEAD,
  });
  const seen = virtual.getVirtualItems();
  const wanted = useMemo(() => seen.map((item) => table.ids[rows[item.index] ?? 0] ?? ""), [seen, rows, table]);
  useWanted(cache, wanted);
  usePan(scroller, timeHead, time);
  const { startIndex = 0, endIndex = -1 } = virtual.range ?? {};
  // What is under the heading or cut at the end is hardly in view.
  const inView = useMemo(() => extentInView(table, rows, startIndex, endIndex, now), [table, rows, startIndex, endIndex, now]);
  /** Scrolls to what is in the window, if nothing of it is in view. */
  const reveal = (range: readonly [number, number] | null) => {
    if (!range || (range[1] >= time.from && range[0] <= time.to)) return;
    const first = rows.findIndex((row) => (table.start[row] ?? 0) >= time.from);
    const at = first >= 0 && (table.start[rows[first] ?? 0] ?? 0) <= time.to ? first : first < 0 ? rows.length - 1 : Math.max(first - 1, 0);
    virtual.scrollToIndex(at, { align: "start" });
  };
  const before = useRef<readonly [number, number] | null>(null);
  const follow = useThrottled(time.follow, FOLLOW);
  useEffect(() => {
    // Only rows that come into view move the window; a list that is made anew must not, nor the window itself.
    if (!inView || (before.current?.[0] === inView[0] && before.current[1] === inView[1])) return;
    // A link to a window shows the rows of that window.
    if (before.current || time.follows) follow(inView);
    else if (jump === 0) reveal(inView);
    before.current = inView;
    // oxlint-disable-next-line react/exhaustive-deps
  }, [inView]);
  useEffect(() => {
    if (current < 0 || jump === 0) return;
    virtual.scrollToIndex(current, { align: "auto" });
    time.reach(table.start[rows[current] ?? 0] ?? 0, table.endOf(rows[current] ?? 0, now));
    requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`[data-index="${current}"]`)?.focus({ preventScroll: true }));
    // Only a jump scrolls the list; new rows must not.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [jump]);
  const isOpen = useCallback((row: number) => tools.isOpen("spans", table.ids[row] ?? "", true), [tools, table]);
  const onToggle = useCallback((row: number) => tools.toggle("spans", table.ids[row] ?? "", !isOpen(row)), [tools, table, isOpen]);
  const onKeyDown = (event: KeyboardEvent, row: number) => {
    const opens = table.order.opens(row);
    if (event.key === "ArrowRight" && opens && !isOpen(row)) onToggle(row);
    else if (event.key === "ArrowLeft" && opens && isOpen(row)) onToggle(row);
    else return;
    event.preventDefault();
  };
  const columns = t.columns;
  return (
    <TextsContext value={cache}>
      <div className={styles.waterfall}>
        {isAggregated(view, spans) && <Flame spans={spans} view={view} now={now} onGo={onGo} />}
        <Minimap spans={spans} window={time} now={now} onFinish={() => reveal(inView)} />
        <div ref={scroller} className={styles.scroller} role="treegrid" aria-label={t.waterfallLabel} aria-rowcount={rows.length + 1}>
          <div role="row" aria-rowindex={1} className={styles.head}>
            <div role="columnheader">{columns.name}</div>
            <div role="columnheader" className={styles.figure}>
              {columns.tokens}
            </div>
            <div role="columnheader" className={styles.figure}>
              {columns.cost}
            </div>
            <div role="columnheader" className={styles.figure}>
              {columns.duration}
            </div>
            <div role="columnheader" ref={timeHead} className={styles.timeHead}>
              <span className="unseen">{columns.time}</span>
              <Axis window={time} width={width} />
            </div>
          </div>
          <div role="rowgroup" className={styles.rows} style={{ height: virtual.getTotalSize() }}>
            <div className={styles.ground} role="presentation">
              <Grid window={time} width={width} />
            </div>
            {seen.map((item) => {
              const row = rows[item.index] ?? 0;
              return (
                <div
                  key={item.key}
                  role="row"
                  data-index={item.index}
                  aria-rowindex={item.index + 2}
                  aria-level={(table.order.depth[row] ?? 0) + 1}
                  aria-expanded={table.order.opens(row) ? isOpen(row) : undefined}
                  aria-selected={table.ids[row] === view.span}
                  tabIndex={item.index === Math.max(current, 0) ? 0 : -1}
                  data-current={item.index === current || undefined}
                  className={styles.row}
                  style={{ transform: `translateY(${item.start}px)` }}
                  onClick={(event) => {
                    onCurrent(row);
                    if (!(event.target instanceof Element && event.target.closest("button"))) tools.details(table.ids[row] ?? "");
                  }}
                  onKeyDown={(event) => onKeyDown(event, row)}
                >
                  <TreeRow spans={spans} row={row} window={time} now={now} open={isOpen(row)} onToggle={onToggle} />
                </div>
              );
            })}
          </div>
        </div>
      </div>
    </TextsContext>
  );
}
