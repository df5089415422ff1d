/** The live list: it is stable while the user reads it, and shows the number of new sessions. */
import type { PointerEvent, UIEvent } from "react";
import { useCallback, useRef, useState } from "react";

import { Button, Icon, VirtualList } from "../../parts";
import type { VirtualListHandle } from "../../parts";
import { useText } from "../../text";
import type { SortBy, View } from "./filters";
import { ListHead } from "./list-head";
import type { Picked } from "./picked";
import { isUnseen, useSeen } from "./seen";
import { SessionItem } from "./session-item";
import styles from "./session-list.module.css";
import { text } from "./text";
import { useListKeys } from "./use-list-keys";
import type { Rows } from "./use-rows";

interface SessionListProps {
  view: View;
  found: Rows;
  onSort: (sort: SortBy, order: View["order"]) => void;
  /** The user is reading: rows must not move. */
  onHold: (held: boolean) => void;
  picked: Picked;
}

export function SessionListView({ view, found, onSort, onHold, picked }: SessionListProps) {
  const t = useText(text);
  const seen = useSeen();
  const list = useRef<VirtualListHandle>(null);
  const { rows, query } = found;
  const team = rows.some((row) => row.person !== null || row.machine !== null);
  const hold = useHold(onHold);
  const choose = useListKeys(rows, list, picked);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  return (
    // Where the pointer is decides whether rows may move; there is nothing to be pressed.
    // oxlint-disable-next-line jsx-a11y/no-static-element-interactions
    <div className={styles.frame} data-picking={picked.keys.length > 0 || undefined} {...hold.watch}>
      {found.fresh > 0 && (
        <Button
          tone="main"
          small
          className={styles.pill}
          onClick={() => {
            list.current?.scrollTo(0);
            hold.release();
          }}
        >
          <Icon name="up" size={12} />
          {t.fresh(found.fresh)}
        </Button>
      )}
      <VirtualList
        label={t.list}
        items={rows}
        itemKey={(row) => row.key}
        estimate={47}
        handle={list}
        head={<ListHead view={view} onSort={onSort} team={team} />}
        onEnd={more}
        render={(row) => (
          <SessionItem
            row={row}
            unseen={isUnseen(seen, row)}
            sought={view.filters.q}
            onFocus={choose}
            team={team}
            picked={picked.keys.includes(row.key)}
            onPick={picked.toggle}
          />
        )}
        foot={isFetchingNextPage ? <p className={styles.foot}>{t.loadingMore}</p> : undefined}
      />
    </div>
  );
}

/** Rows are held while the list is scrolled down or the pointer is on it; touching is scrolling. */
function useHold(onHold: (held: boolean) => void) {
  const state = useRef({ scrolled: false, pointed: false });
  const [, redraw] = useState(0);
  const tell = (change: Partial<typeof state.current>) => {
    const before = state.current.scrolled || state.current.pointed;
    Object.assign(state.current, change);
    const now = state.current.scrolled || state.current.pointed;
    if (now !== before) onHold(now);
  };
  const pointed = (event: PointerEvent, on: boolean) => event.pointerType === "mouse" && tell({ pointed: on });
  return {
    watch: {
      onScrollCapture: (event: UIEvent) =>
        event.target instanceof HTMLElement && tell({ scrolled: event.target.scrollTop > 4 }),
      onPointerMove: (event: PointerEvent) => pointed(event, true),
      onPointerLeave: (event: PointerEvent) => pointed(event, false),
    },
    release: () => {
      tell({ scrolled: false, pointed: false });
      redraw((times) => times + 1);
    },
  };
}
