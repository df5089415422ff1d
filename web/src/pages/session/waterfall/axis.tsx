/** Marks of time above the bars and lines through them. */
import { useMemo } from "react";

import { useFormat } from "../../../format";
import { useText } from "../../../text";
import { ticksOf } from "../model/ticks";
import { text } from "../text";
import type { Window } from "./use-scale";
import styles from "./waterfall.module.css";

/** Pixels between two marks. */
const APART = 84;

export function useTicks(view: Window, width: number) {
  return useMemo(
    () => ticksOf(view.scale, view.from, view.to, Math.max(Math.floor(width / APART), 1)),
    [view.scale, view.from, view.to, width],
  );
}

export function Axis({ window: view, width }: { window: Window; width: number }) {
  const f = useFormat();
  const ticks = useTicks(view, width);
  return (
    <div className={styles.axis} aria-hidden="true">
      {ticks.map((tick) => (
        <span key={tick.since} style={{ left: `${tick.at * 100}%` }}>
          {tick.since === 0 ? "0" : f.duration(tick.since)}
        </span>
      ))}
    </div>
  );
}

/** Lines at the marks, and bands where a pause was cut. */
export function Grid({ window: view, width }: { window: Window; width: number }) {
  const t = useText(text);
  const f = useFormat();
  const ticks = useTicks(view, width);
  const pauses = view.scale.pauses.filter((pause) => pause.to > view.from && pause.from < view.to);
  return (
    <div className={styles.grid} aria-hidden="true">
      {ticks.map((tick) => (
        <i key={tick.since} style={{ left: `${tick.at * 100}%` }} />
      ))}
      {/* Hundreds of bands would be a grey ground that says nothing. */}
      {pauses.length <= width / 12 &&
        pauses.map((pause) => {
          const left = Math.max(view.at(pause.from), 0);
          const right = Math.min(view.at(pause.to), 1);
          return (
            <b
              key={pause.from}
              title={t.pause(f.duration(pause.to - pause.from))}
              style={{ left: `${left * 100}%`, width: `max(1px, ${(right - left) * 100}%)` }}
            />
          );
        })}
    </div>
  );
}
