/** The whole session at a glance, and the window of it that is seen: to be drawn, moved and pulled at its ends. */
import type { KeyboardEvent, PointerEvent } from "react";
import { useEffect, useRef } from "react";

import { useFormat } from "../../../format";
import { useText } from "../../../text";
import { useShownTheme } from "../../../theme";
import type { Spans } from "../data/use-spans";
import { text } from "../text";
import { drawSpans } from "./draw-spans";
import type { Window } from "./use-scale";
import { useWidth } from "./use-width";
import styles from "./waterfall.module.css";

type Part = "start" | "end" | "inside" | "new";

interface Drag {
  part: Part;
  /** Where it began, and where the window was then, as shares of the session. */
  at: number;
  from: number;
  to: number;
}

/** A window that is drawn must be as wide as this share of the session: anything less was a click. */
const CLICK = 0.004;
const HEIGHT = 56;

interface MinimapProps {
  spans: Spans;
  window: Window;
  now: number;
  /** A window was drawn or moved. */
  onFinish: () => void;
}

export function Minimap({ spans, window: view, now, onFinish }: MinimapProps) {
  const t = useText(text);
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(place);
  const theme = useShownTheme();
  const drag = useRef<Drag | null>(null);
  const { scale } = view;
  useEffect(() => {
    if (canvas.current && width > 0) drawSpans(canvas.current, spans.table, scale, width, HEIGHT, now);
  }, [spans, scale, width, now, theme]);
  const length = scale.length || 1;
  const from = scale.lengthAt(view.from) / length;
  const to = scale.lengthAt(view.to) / length;
  const shareAt = (event: PointerEvent) => {
    const box = place.current?.getBoundingClientRect();
    return box ? Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) : 0;
  };
  const set = (low: number, high: number) => view.set([scale.timeAt(low * length), scale.timeAt(high * length)]);
  const begin = (event: PointerEvent) => {
    if (event.button !== 0) return;
    const name = event.target instanceof HTMLElement ? event.target.dataset["part"] : undefined;
    const whole = to - from > 0.999;
    const part: Part = name === "start" || name === "end" || (name === "inside" && !whole) ? name : "new";
    drag.current = { part, at: shareAt(event), from, to };
    event.currentTarget.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent) => {
    const began = drag.current;
    if (!began) return;
    const [low, high] = dragged(began, shareAt(event));
    if (began.part !== "new" || high - low > CLICK) set(low, high);
  };
  const finish = () => {
    if (drag.current) onFinish();
    drag.current = null;
  };
  return (
    // The handles inside are the keyboard's way.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions
    <div
      ref={place}
      className={styles.minimap}
      style={{ height: HEIGHT }}
      role="group"
      aria-label={t.minimap}
      title={t.minimap}
      onPointerDown={begin}
      onPointerMove={move}
      onPointerUp={finish}
      onPointerCancel={finish}
      onDoubleClick={() => view.set(null)}
    >
      <canvas ref={canvas} aria-hidden="true" />
      <div className={styles.veil} style={{ left: 0, width: `${from * 100}%` }} />
      <div className={styles.veil} style={{ left: `${to * 100}%`, right: 0 }} />
      <div className={styles.window} data-part="inside" style={{ left: `${from * 100}%`, width: `${(to - from) * 100}%` }} />
      <Handle part="start" at={from} time={view.from} window={view} label={t.windowStart} />
      <Handle part="end" at={to} time={view.to} window={view} label={t.windowEnd} />
    </div>
  );
}

/** The window after the pointer was moved. */
function dragged({ part, at, from, to }: Drag, now: number): [number, number] {
  if (part === "new") return [Math.min(at, now), Math.max(at, now)];
  if (part === "start") return [Math.min(now, to - CLICK), to];
  if (part === "end") return [from, Math.max(now, from + CLICK)];
  const moved = Math.min(Math.max(from + now - at, 0), 1 - (to - from));
  return [moved, moved + to - from];
}

interface HandleProps {
  part: "start" | "end";
  at: number;
  time: number;
  window: Window;
  label: string;
}

/** An end of the window; moved by keys too. */
function Handle({ part, at, time, window: view, label }: HandleProps) {
  const f = useFormat();
  const { scale } = view;
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -0.01, ArrowRight: 0.01, PageDown: -0.1, PageUp: 0.1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const moved = scale.timeAt(Math.min(Math.max(at + step, 0), 1) * scale.length);
    view.set(part === "start" ? [Math.min(moved, view.to - 1), view.to] : [view.from, Math.max(moved, view.from + 1)]);
  };
  return (
    <div
      role="slider"
      tabIndex={0}
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(at * 100)}
      aria-valuetext={f.duration(time - scale.from)}
      className={styles.handle}
      data-part={part}
      style={{ left: `${at * 100}%` }}
      onKeyDown={onKeyDown}
    />
  );
}
