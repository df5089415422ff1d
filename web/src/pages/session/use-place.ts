/** The current row, the open span, and navigation. */
import { useCallback, useMemo, useState } from "react";

import type { Spans } from "./data/use-spans";
import type { View } from "./data/use-view";
import type { Landmark } from "./model/rows";
import { indexOf, landmark, shownRows } from "./model/rows";
import type { SessionTools } from "./session-context";
import type { Moves } from "./use-keys";

export interface Place {
  rows: Int32Array;
  /** The index of the current row; -1 for none. */
  current: number;
  currentId: string | null;
  /** Increases with each jump: lists then scroll to the current row. */
  jump: number;
  goTo(id: string): void;
  setCurrent(row: number): void;
  moves: Moves;
  tools: SessionTools;
}

/** `limit`: those of the rows that a replay has shown. */
export function usePlace(spans: Spans, view: View, live: boolean, received: boolean, limit: (rows: Int32Array) => Int32Array): Place {
  const { table } = spans;
  const { span, change, name } = view;
  const [here, setHere] = useState({ id: span, jump: span === null ? 0 : 1 });
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map());
  // In a conversation subagents are collapsed; in the waterfall everything is shown.
  const usually = useCallback((row: number) => name === "waterfall" || table.kindOf(row) !== "tool", [name, table]);
  const isOpen = useCallback((what: string, id: string, usually: boolean) => opened.get(`${what} ${id}`) ?? usually, [opened]);
  const all = useMemo(
    () => shownRows(spans.table, view.filter, (row) => !isOpen("spans", table.ids[row] ?? "", usually(row))),
    [spans, table, view.filter, isOpen, usually],
  );
  const rows = useMemo(() => limit(all), [limit, all]);
  const open = useCallback((what: string, ids: readonly string[], on: boolean) => {
    setOpened((before) => new Map([...before, ...ids.map((id) => [`${what} ${id}`, on] as const)]));
  }, []);
  const goTo = useCallback(
    (id: string) => {
      const row = table.rowOf(id);
      if (row < 0) return;
      const closed = [...table.order.ancestors(row)].map((up) => table.ids[up] ?? "");
      open("spans", closed, true);
      setHere((before) => ({ id, jump: before.jump + 1 }));
      if (span !== null) change({ span: id });
    },
    [table, open, span, change],
  );
  const current = useMemo(() => indexOf(spans.table, rows, spans.table.rowOf(here.id)), [spans, rows, here.id]);
  const tools = useMemo<SessionTools>(
    () => ({
      key: spans.key,
      hideThinking: view.hideThinking,
      live,
      received,
      isOpen,
      toggle: (what, id, on) => open(what, [id], on),
      details: (id) => {
        setHere((before) => ({ ...before, id }));
        change({ span: id }, { push: true });
      },
    }),
    [spans.key, view.hideThinking, live, received, isOpen, open, change],
  );
  const goToRow = (row: number) => {
    if (row >= 0) goTo(table.ids[row] ?? "");
    return row;
  };
  return {
    rows,
    current,
    currentId: here.id,
    jump: here.jump,
    goTo,
    tools,
    setCurrent: (row) => setHere((before) => ({ ...before, id: table.ids[row] ?? null })),
    moves: {
      step: (by) => void goToRow(rows[Math.min(Math.max(current + by, 0), rows.length - 1)] ?? -1),
      seek: (what: Landmark, direction) => goToRow(landmark(table, table.rowOf(here.id), what, direction)),
      open: () => here.id !== null && change({ span: here.id }, { push: true }),
      close: () => change({ span: null }),
    },
  };
}
