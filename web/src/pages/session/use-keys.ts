/** What keys do on this page. */
import { useShortcuts } from "../../shell/shortcuts";
import { useText } from "../../text";
import type { View, ViewName } from "./data/use-view";
import { VIEWS, tabParams } from "./data/use-view";
import type { Landmark } from "./model/rows";
import { text } from "./text";
import { SEARCH } from "./toolbar";
import { waterfallText } from "./waterfall/text";
import type { Window } from "./waterfall/use-scale";

export interface Moves {
  /** To the next or the previous row. */
  step(by: 1 | -1): void;
  /** To the next or the previous span of a kind; returns its row, -1 if there is none. */
  seek(what: Landmark, direction: 1 | -1): number;
  open(): void;
  close(): void;
}

/** The margin on both sides of a span that is zoomed to, as a share of its length; of an error more, and that much in milliseconds. */
const AROUND = 0.1;
const AROUND_ERROR = 0.5;
const LEAST_AROUND_ERROR = 100;

/** `current`: the row that keys act on; `timeOf`: beginning and end of a row. */
export function useKeys(
  moves: Moves,
  view: View,
  time: Window,
  current: number,
  timeOf: (row: number) => readonly [number, number],
  onOutline: () => void,
): void {
  const t = useText(text).keys;
  const { pinKey } = useText(waterfallText);
  const waterfall = view.name === "waterfall";
  const names = useText(text).tabs;
  const to = (name: ViewName) => () => view.change(tabParams(name));
  // Rows are in these two; the other tabs have keys of their own.
  const hasRows = waterfall || view.name === "conversation";
  const zoomTo = (row: number, share: number, least: number) => {
    if (row < 0) return;
    const [from, to] = timeOf(row);
    const around = Math.max((to - from) * share, least);
    time.set([from - around, to + around]);
  };
  const seekError = (direction: 1 | -1) => {
    const row = moves.seek("error", direction);
    if (waterfall) zoomTo(row, AROUND_ERROR, LEAST_AROUND_ERROR);
  };
  const zooming = [
    { keys: "+", does: t.zoomIn, run: () => time.zoom(0.5) },
    { keys: "=", does: t.zoomIn, run: () => time.zoom(0.5), hidden: true },
    { keys: "-", does: t.zoomOut, run: () => time.zoom(2) },
    { keys: "0", does: t.zoomAll, run: () => time.zoom(null) },
    { keys: "z", does: t.zoomTo, run: () => zoomTo(current, AROUND, 1) },
    { keys: "p", does: pinKey, run: () => time.pin(!view.pinned) },
    { keys: "h", does: t.left, run: () => time.pan(-0.25) },
    { keys: "l", does: t.right, run: () => time.pan(0.25) },
  ];
  const moving = [
    { keys: "j", does: t.next, run: () => moves.step(1) },
    { keys: "k", does: t.previous, run: () => moves.step(-1) },
    { keys: "ArrowDown", does: t.next, run: () => moves.step(1), hidden: true },
    { keys: "ArrowUp", does: t.previous, run: () => moves.step(-1), hidden: true },
    { keys: "Enter", does: t.open, run: moves.open },
    { keys: "e", does: t.nextError, run: () => seekError(1) },
    { keys: "E", does: t.previousError, run: () => seekError(-1) },
    { keys: "t", does: t.nextTool, run: () => void moves.seek("tool", 1) },
    { keys: "T", does: t.previousTool, run: () => void moves.seek("tool", -1) },
    { keys: "]", does: t.nextTurn, run: () => void moves.seek("turn", 1) },
    { keys: "[", does: t.previousTurn, run: () => void moves.seek("turn", -1) },
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
