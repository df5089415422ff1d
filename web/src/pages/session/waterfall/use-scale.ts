/** The scale of a session's time and the window of it that is seen. */
import { useCallback, useMemo } from "react";

import type { Spans } from "../data/use-spans";
import type { View } from "../data/use-view";
import { extent } from "../model/rows";
import { panned, zoomed } from "../model/ticks";
import { TimeScale, scaleOf } from "../model/time-scale";

export interface Window {
  scale: TimeScale;
  from: number;
  to: number;
  /** Moves both ends; null shows the whole session. */
  set(range: readonly [number, number] | null): void;
  /** Factors below 1 zoom in; around the centre unless a time is given. */
  zoom(factor: number | null, around?: number): void;
  /** By a share of the window. */
  pan(share: number): void;
  /** Moves the window to a stretch of time, unless some of it is seen already. */
  reach(start: number, end: number): void;
  /** The position of a time in the window: 0 at its beginning, 1 at its end. */
  at(time: number): number;
  /** The time at a position of the window. */
  timeAt(share: number): number;
}

/** The scale while the time axis is not visible. */
const UNSEEN = new TimeScale(0, 1);

/** `now`: until then open spans go on. */
export function useScale(spans: Spans, view: View, now: number): Window {
  const seen = view.name === "waterfall";
  const { realTime, zoom, change } = view;
  const scale = useMemo(
    () => (seen ? scaleOf(spans.table, extent(spans.table, now), now, !realTime) : UNSEEN),
    [spans, now, realTime, seen],
  );
  const from = Math.max(zoom?.[0] ?? scale.from, scale.from);
  const to = Math.max(Math.min(zoom?.[1] ?? scale.to, scale.to), from + 1);
  const set = useCallback(
    (range: readonly [number, number] | null) => {
      const all = range === null || (range[0] <= scale.from + 1 && range[1] >= scale.to - 1);
      change(all ? { from: null, to: null } : { from: Math.floor(range[0]), to: Math.ceil(range[1]) });
    },
    [scale, change],
  );
  return useMemo(() => {
    const start = scale.lengthAt(from);
    const length = scale.lengthAt(to) - start || 1;
    const timeAt = (share: number) => scale.timeAt(start + share * length);
    return {
      scale,
      from,
      to,
      set,
      timeAt,
      at: (time) => (scale.lengthAt(time) - start) / length,
      zoom: (factor, around) => set(factor === null ? null : zoomed(scale, [from, to], around ?? timeAt(0.5), factor)),
      pan: (share) => set(panned(scale, [from, to], share)),
      reach: (begin, end) => {
        if (end >= from && begin <= to) return;
        set(panned(scale, [from, to], (scale.lengthAt(begin) - start) / length - 0.3));
      },
    };
  }, [scale, from, to, set]);
}
