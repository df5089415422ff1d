/** What keys do on this page. */
import { useShortcuts } from "../../shell/shortcuts";
import { useText } from "../../text";
import type { View, ViewName } from "./data/use-view";
import { VIEWS, tabParams } from "./data/use-view";
import type { Landmark } from "./model/rows";
import { text } from "./text";
import { SEARCH } from "./toolbar";
import type { Window } from "./waterfall/use-scale";

export interface Moves {
  /** To the next or the previous row. */
  step(by: 1 | -1): void;
  seek(what: Landmark, direction: 1 | -1): void;
  open(): void;
  close(): void;
}

/** The margin on both sides of a span that is zoomed to, as a share of its length. */
const AROUND = 0.1;

/** `current`: beginning and end of the span that keys act on. */
export function useKeys(moves: Moves, view: View, time: Window, current: readonly [number, number] | null, onOutline: () => void): void {
  const t = useText(text).keys;
  const waterfall = view.name === "waterfall";
  const names = useText(text).tabs;
  const to = (name: ViewName) => () => view.change(tabParams(name));
  // Rows are in these two; the other tabs have keys of their own.
  const hasRows = waterfall || view.name === "conversation";
  const zoomTo = () => {
    if (!current) return;
    const around = Math.max((current[1] - current[0]) * AROUND, 1);
    time.set([current[0] - around, current[1] + around]);
  };
  const zooming = [
    { keys: "+", does: t.zoomIn, run: () => time.zoom(0.5) },
    { keys: "=", does: t.zoomIn, run: () => time.zoom(0.5), hidden: true },
    { keys: "-", does: t.zoomOut, run: () => time.zoom(2) },
    { keys: "0", does: t.zoomAll, run: () => time.zoom(null) },
    { keys: "z", does: t.zoomTo, run: zoomTo },
    { keys: "h", does: t.left, run: () => time.pan(-0.25) },
    { keys: "l", does: t.right, run: () => time.pan(0.25) },
  ];
  const moving = [
    { keys: "j", does: t.next, run: () => moves.step(1) },
    { keys: "k", does: t.previous, run: () => moves.step(-1) },
    { keys: "ArrowDown", does: t.next, run: () => moves.step(1), hidden: true },
    { keys: "ArrowUp", does: t.previous, run: () => moves.step(-1), hidden: true },
    { keys: "Enter", does: t.open, run: moves.open },
    { keys: "e", does: t.nextError, run: () => moves.seek("error", 1) },
    { keys: "E", does: t.previousError, run: () => moves.seek("error", -1) },
    { keys: "t", does: t.nextTool, run: () => moves.seek("tool", 1) },
    { keys: "T", does: t.previousTool, run: () => moves.seek("tool", -1) },
    { keys: "]", does: t.nextTurn, run: () => moves.seek("turn", 1) },
    { keys: "[", does: t.previousTurn, run: () => moves.seek("turn", -1) },
  ];
  useShortcuts([
    ...(hasRows ? moving : []),
    { keys: "Escape", does: t.close, run: moves.close },
    ...VIEWS.map((name, index) => ({ keys: String(index + 1), does: names[name], run: to(name) })),
    { keys: "c", does: names.conversation, run: to("conversation"), hidden: true },
    { keys: "w", does: names.waterfall, run: to("waterfall"), hidden: true },
    { keys: "r", does: names.requests, run: to("requests"), hidden: true },
    { keys: "o", does: t.outline, run: onOutline },
    { keys: "f", does: t.search, run: () => document.getElementById(SEARCH)?.focus() },
    ...(waterfall ? zooming : []),
  ]);
}
