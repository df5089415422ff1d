/** A virtual list: only visible items are in the document; keyboard navigation if its items can be selected. */
import { useVirtualizer } from "@tanstack/react-virtual";
import type { HTMLAttributes, KeyboardEvent, ReactNode, Ref } from "react";
import { useEffect, useId, useImperativeHandle, useLayoutEffect, useRef, useState } from "react";

import styles from "./virtual-list.module.css";

export interface VirtualListHandle {
  scrollTo(index: number): void;
}

interface VirtualListProps<T> {
  label: string;
  items: readonly T[];
  itemKey: (item: T, index: number) => string | number;
  render: (item: T, index: number) => ReactNode;
  /** The height of an item in pixels; true heights are measured unless `fixed`. */
  estimate: number;
  fixed?: boolean;
  /** `list`: to read, with links inside. `listbox` and `tree`: one item is chosen, and nothing inside takes the focus. */
  role?: "list" | "listbox" | "tree";
  chosen?: number;
  onChoose?: (index: number) => void;
  /** Enter or a double click on the chosen item. */
  onOpen?: (index: number) => void;
  /** Further attributes of an item, for instance aria-level and aria-expanded in a tree. */
  itemProps?: (item: T, index: number) => HTMLAttributes<HTMLElement>;
  /** The end is near: time to load more. */
  onEnd?: () => void;
  /** Above the items, in view while they scroll: the names of columns, which are as wide as the items. */
  head?: ReactNode;
  /** After the items: "Load more", or that it loads. */
  foot?: ReactNode;
  className?: string;
  handle?: Ref<VirtualListHandle>;
}

const ITEM_ROLES = { list: "listitem", listbox: "option", tree: "treeitem" } as const;

export function VirtualList<T>(props: VirtualListProps<T>) {
  const { items, itemKey, role = "list", chosen, onEnd } = props;
  const id = useId();
  const scroller = useRef<HTMLDivElement>(null);
  const head = useRef<HTMLDivElement>(null);
  const [covered, setCovered] = useState(0);
  useLayoutEffect(() => setCovered(head.current?.offsetHeight ?? 0), []);
  const virtual = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => props.estimate,
    getItemKey: (index) => {
      const item = items[index];
      return item === undefined ? index : itemKey(item, index);
    },
    overscan: 12,
    // Items begin below the head, which covers as much of them.
    scrollPaddingEnd: covered,
  });
  useImperativeHandle(props.handle, () => ({ scrollTo: (index) => virtual.scrollToIndex(index, { align: "auto" }) }));
  useEffect(() => {
    if (chosen !== undefined && chosen >= 0 && chosen < items.length) virtual.scrollToIndex(chosen, { align: "auto" });
    // Only a new selection scrolls the list; new items must not.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [chosen]);
  const seen = virtual.getVirtualItems();
  const last = seen.at(-1)?.index ?? 0;
  useEffect(() => {
    if (items.length > 0 && last >= items.length - 5) onEnd?.();
  }, [last, items.length, onEnd]);
  const picks = role !== "list";
  return (
    // The scrolling part takes the focus: that is how its list is moved by keyboard.
    <div
      ref={scroller}
      role={picks ? undefined : "group"}
      aria-label={picks ? undefined : props.label}
      className={`${styles.scroller} ${props.className ?? ""}`}
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
      tabIndex={picks ? undefined : 0}
    >
      {props.head && (
        <div ref={head} className={styles.head}>
          {props.head}
        </div>
      )}
      {/* The role is one of three, which the linter cannot see. */}
      {/* oxlint-disable-next-line jsx-a11y/no-static-element-interactions */}
      <div
        role={role}
        aria-label={props.label}
        tabIndex={picks ? 0 : undefined}
        aria-activedescendant={picks && seen.some((row) => row.index === chosen) ? `${id}-${chosen}` : undefined}
        className={styles.items}
        style={{ height: virtual.getTotalSize() }}
        onKeyDown={picks ? (event) => moved(event, props, pageOf(scroller.current, props.estimate)) : undefined}
      >
        {seen.map((row) => {
          const item = items[row.index];
          if (item === undefined) return null;
          const picked = picks && row.index === chosen;
          return (
            // Keys are handled by the list, which has the focus.
            // oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-static-element-interactions
            <div
              key={row.key}
              ref={props.fixed ? undefined : virtual.measureElement}
              data-index={row.index}
              id={`${id}-${row.index}`}
              role={ITEM_ROLES[role]}
              aria-setsize={items.length}
              aria-posinset={row.index + 1}
              aria-selected={picks ? picked : undefined}
              className={styles.item}
              style={{ transform: `translateY(${row.start}px)`, height: props.fixed ? row.size : undefined }}
              onClick={picks ? () => props.onChoose?.(row.index) : undefined}
              onDoubleClick={picks ? () => props.onOpen?.(row.index) : undefined}
              {...props.itemProps?.(item, row.index)}
            >
              {props.render(item, row.index)}
            </div>
          );
        })}
      </div>
      {props.foot}
    </div>
  );
}

function pageOf(scroller: HTMLElement | null, estimate: number): number {
  return Math.max(Math.floor((scroller?.clientHeight ?? 0) / estimate) - 1, 1);
}

function moved<T>(event: KeyboardEvent, props: VirtualListProps<T>, page: number): void {
  const { items, chosen = -1 } = props;
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "Enter" && chosen >= 0) {
    event.preventDefault();
    props.onOpen?.(chosen);
    return;
  }
  const to: Record<string, number> = {
    ArrowDown: chosen + 1,
    ArrowUp: chosen - 1,
    PageDown: chosen + page,
    PageUp: chosen - page,
    Home: 0,
    End: items.length - 1,
  };
  const next = to[event.key];
  if (next === undefined || items.length === 0) return;
  event.preventDefault();
  props.onChoose?.(Math.min(Math.max(next, 0), items.length - 1));
}
