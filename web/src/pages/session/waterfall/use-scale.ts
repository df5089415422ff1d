/** The scale of a session's time and the window of it that is seen. */
import { useCallback, useMemo, useState } from "react";

import type { Spans } from "../data/use-spans";
import type { View } from "../data/use-view";
import { extent } from "../model/rows";
import { panned, zoomed } from "../model/ticks";
import { TimeScale, scaleOf } from "../model/time-scale";

export interface Window {
  scale: TimeScale;
  from: number;
  to: number;
  /** It is that of the rows in view, and moves with them. */
  follows: boolean;
  /** It is the whole session, and stays so. */
  whole: boolean;
  /** Moves both ends; null shows the whole session. */
  set(range: readonly [number, number] | null): void;
  /** Factors below 1 zoom in; around the centre unless a time is given. */
  zoom(factor: number | null, around?: number): void;
  /** By a share of the window. */
  pan(share: number): void;
  /** Moves the window to a stretch of time, unless some of it is seen already, or will be with its row. */
  reach(start: number, end: number): void;
  /** The time of the rows in view has changed: a window that is not pinned does not stay where none of them is. */
  follow(range: readonly [number, number] | null): void;
  /** Keeps the window as it is, or lets it follow the rows. */
  pin(on: boolean): void;
  /** The position of a time in the window: 0 at its beginning, 1 at its end. */
  at(time: number): number;
  /** The time at a position of the window. */
  timeAt(share: number): number;
}

/** The scale while the time axis is not visible. */
const UNSEEN = new TimeScale(0, 1);

/** Empty space beside the rows in view, as a share of their time. */
const MARGIN = 0.02;

/** `now`: until then open spans go on. */
export function useScale(spans: Spans, view: View, now: number): Window {
  const seen = view.name === "waterfall";
  const { realTime, zoom, pinned, change } = view;
  const [inView, setInView] = useState<readonly [number, number] | null>(null);
  const scale = useMemo(
    () => (seen ? scaleOf(spans.table, extent(spans.table, now), now, !realTime) : UNSEEN),
    [spans, now, realTime, seen],
  );
  const follows = !pinned && zoom === null;
  const [low, high] = zoom ?? (follows && inView ? around(scale, inView) : [scale.from, scale.to]);
  const from = Math.max(low, scale.from);
  const to = Math.max(Math.min(high, scale.to), from + 1);
  const set = useCallback(
    (range: readonly [number, number] | null) => {
      const all = range === null || (range[0] <= scale.from + 1 && range[1] >= scale.to - 1);
      change(all ? { from: null, to: null, pin: true } : { from: Math.floor(range[0]), to: Math.ceil(range[1]) });
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
      follows,
      whole: pinned && zoom === null,
      set,
      timeAt,
      at: (time) => (scale.lengthAt(time) - start) / length,
      zoom: (factor, around) => set(factor === null ? null : zoomed(scale, [from, to], around ?? timeAt(0.5), factor)),
      pan: (share) => set(panned(scale, [from, to], share)),
      reach: (begin, end) => {
        if (follows || (end >= from && begin <= to)) return;
        set(panned(scale, [from, to], (scale.lengthAt(begin) - start) / length - 0.3));
      },
      follow: (range) => {
        setInView((before) => (before?.[0] === range?.[0] && before?.[1] === range?.[1] ? before : range));
        if (range && !pinned && zoom && (range[1] < from || range[0] > to)) change({ from: null, to: null });
      },
      pin: (on) => {
        if (on) change({ pin: true, from: Math.floor(from), to: Math.ceil(to) });
        else change({ pin: null, from: null, to: null });
      },
    };
  }, [scale, from, to, follows, pinned, zoom, set, change]);
}

function around(scale: TimeScale, [from, to]: readonly [number, number]): [number, number] {
  const [low, high] = [scale.lengthAt(from), scale.lengthAt(to)];
  const margin = (high - low) * MARGIN;
  return [scale.timeAt(low - margin), scale.timeAt(high + margin)];
}
