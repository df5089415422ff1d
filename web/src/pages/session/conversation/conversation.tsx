/** The conversation: only visible rows are in the document, and their texts are loaded when they are near. */
import { useVirtualizer } from "@tanstack/react-virtual";
import type { RefObject } from "react";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";

import { Button } from "../../../parts";
import { useText } from "../../../text";
import type { Spans } from "../data/use-spans";
import { TextsContext, useWanted } from "../data/use-texts";
import type { TextCache } from "../data/text-cache";
import { turnAround } from "../model/outline";
import { text } from "../text";
import styles from "./conversation.module.css";
import { Item } from "./item";

interface ConversationProps {
  spans: Spans;
  rows: Int32Array;
  cache: TextCache;
  /** The index of the current row; -1 for none. */
  current: number;
  /** Changes when that row is to be brought into view. */
  jump: number;
  onCurrent: (row: number) => void;
  /** The agent works: stay at the end while the reader is there. */
  live: boolean;
  /** Called with the turn at the top when another one is there. */
  onTop: (turn: number) => void;
}

/** Of turns, model calls and tools, until they are measured. */
const HEIGHTS = [92, 66, 86];
/** So near to the end counts as being there. */
const NEAR = 48;
/** How long after a jump its row is kept in view, in milliseconds. */
const SETTLING = 2000;

export function Conversation({ spans, rows, cache, current, jump, onCurrent, live, onTop }: ConversationProps) {
  const t = useText(text);
  const { table } = spans;
  const scroller = useRef<HTMLDivElement>(null);
  // The same function for the same rows: a new one would recompute all positions.
  const getItemKey = useCallback((index: number) => rows[index] ?? -1, [rows]);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => HEIGHTS[table.kind[rows[index] ?? 0] ?? 0] ?? 0,
    getItemKey,
    overscan: 6,
  });
  const seen = virtual.getVirtualItems();
  const wanted = useMemo(() => seen.map((item) => table.ids[rows[item.index] ?? 0] ?? ""), [seen, rows, table]);
  useWanted(cache, wanted);
  const top = turnAround(table, rows[virtual.range?.startIndex ?? 0] ?? -1);
  useEffect(() => onTop(top), [top, onTop]);
  // Rows may turn out lower than thought: then everything is in view.
  const below = virtual.getTotalSize() - (virtual.scrollOffset ?? 0) - (virtual.scrollRect?.height ?? 0) > NEAR;
  const end = useEnd(scroller, virtual.getTotalSize(), rows.length, live, live && jump === 0);
  const settling = useRef(0);
  useEffect(() => {
    if (current < 0 || jump === 0) return;
    virtual.scrollToIndex(current, { align: "auto" });
    focusRow(scroller.current, current);
    settling.current = Date.now() + SETTLING;
    // Only a jump scrolls the page; new rows must not.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [jump]);
  const height = virtual.getTotalSize();
  useLayoutEffect(() => {
    // Rows above turn out higher when their texts are there: the row that one went to stays in view.
    if (current >= 0 && Date.now() < settling.current) virtual.scrollToIndex(current, { align: "auto" });
    // oxlint-disable-next-line react/exhaustive-deps
  }, [height]);
  const settled = () => {
    settling.current = 0;
  };
  return (
    <TextsContext value={cache}>
      <div className={styles.frame}>
        <div ref={scroller} className={styles.scroller} onScroll={end.onScroll} onWheel={settled} onPointerDown={settled}>
          <div role="list" aria-label={t.conversationLabel} className={styles.list} style={{ height: virtual.getTotalSize() }}>
            {seen.map((item) => (
              // Whichever part of a row takes the focus, keys go on from that row.
              // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions
              <div
                key={item.key}
                ref={virtual.measureElement}
                data-index={item.index}
                role="listitem"
                aria-setsize={rows.length}
                aria-posinset={item.index + 1}
                aria-level={(table.order.depth[rows[item.index] ?? 0] ?? 0) + 1}
                aria-current={item.index === current || undefined}
                // One row at a time is reached with Tab: the one that keys act on.
                // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
                tabIndex={item.index === Math.max(current, 0) ? 0 : -1}
                className={styles.row}
                style={{ transform: `translateY(${item.start}px)` }}
                onFocus={() => item.index !== current && onCurrent(rows[item.index] ?? -1)}
              >
                <Item spans={spans} row={rows[item.index] ?? 0} />
              </div>
            ))}
          </div>
        </div>
        {end.news && below && (
          <div className={styles.toEnd}>
            <Button small icon="down" onClick={end.go}>
              {t.newBelow}
            </Button>
          </div>
        )}
      </div>
    </TextsContext>
  );
}

function focusRow(scroller: HTMLElement | null, index: number): void {
  // The row may be drawn only after the list has moved there.
  requestAnimationFrame(() =>
    requestAnimationFrame(() => {
      const row = scroller?.querySelector<HTMLElement>(`[data-index="${index}"]`);
      if (row && !row.contains(document.activeElement)) row.focus({ preventScroll: true });
    }),
  );
}

/** Whether the end is in view, or nearly: then there is nothing below. */
function isNearEnd(element: HTMLElement): boolean {
  return element.scrollHeight - element.scrollTop - element.clientHeight < NEAR;
}

/** Follows the end of a growing list while the reader is there; otherwise shows that there is more. */
function useEnd(scroller: RefObject<HTMLDivElement | null>, height: number, count: number, live: boolean, begin: boolean) {
  const following = useRef(begin);
  const before = useRef(count);
  const top = useRef(0);
  const [news, setNews] = useState(false);
  const go = () => {
    following.current = true;
    setNews(false);
    scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
  };
  useLayoutEffect(() => {
    const grew = count > before.current;
    before.current = count;
    if (!live) return;
    const element = scroller.current;
    if (following.current) element?.scrollTo({ top: element.scrollHeight });
    else if (grew) setNews(true);
  }, [scroller, height, count, live]);
  const onScroll = () => {
    const element = scroller.current;
    if (!element) return;
    // Rows that turn out higher than thought push the end away: only who moves up has left it.
    const near = isNearEnd(element);
    if (near) setNews(false);
    following.current = near || (following.current && element.scrollTop >= top.current);
    top.current = element.scrollTop;
  };
  return { news, go, onScroll };
}
