/** The replay of a session: its position in the address, and the clock that moves it. */
import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import { useParams } from "../../../url";
import type { Spans } from "../data/use-spans";
import type { View } from "../data/use-view";
import { extent } from "../model/rows";
import { SpanTable } from "../model/span-table";
import { TimeScale, scaleOf } from "../model/time-scale";
import { appearanceOf, appeared, offsetOf, passed, stepped, timeOf } from "./appearance";

export const SPEEDS = [1, 4, 16] as const;
export type Speed = (typeof SPEEDS)[number];
const USUAL: Speed = 4;

export interface Replay {
  on: boolean;
  playing: boolean;
  speed: Speed;
  /** Where it is: milliseconds since 1970. */
  at: number;
  /** Where it is and how long it is, with pauses cut: milliseconds. */
  position: number;
  length: number;
  ended: boolean;
  /** Jumps before it began do not count: the list stays at its end. */
  jumps: number;
  /** Those of the rows that have appeared; all while there is no replay. */
  limit(rows: Int32Array): Int32Array;
  toggle(jumps: number): void;
  play(on: boolean): void;
  step(direction: 1 | -1): void;
  seek(position: number): void;
  setSpeed(speed: Speed): void;
}

/** Milliseconds between two movements, and between two changes of the address. */
const TICK = 100;
const CALM_TICK = 1000;
const WRITE = 1000;

/** While there is no replay, nothing is computed. */
const OFF = { appearance: appearanceOf(new SpanTable()), scale: new TimeScale(0, 1) };

function wantsCalm(): boolean {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}

export function useReplay(spans: Spans, view: View, live: boolean): Replay {
  const params = useParams();
  const written = params.number("replay");
  const on = view.name === "conversation" && written !== null;
  const speed = SPEEDS.find((each) => String(each) === params.text("speed")) ?? USUAL;
  const [playing, setPlaying] = useState(false);
  // Between two changes of the address.
  const [moved, setMoved] = useState<number | null>(null);
  const [jumps, setJumps] = useState(0);
  const { appearance, scale } = useMemo(() => {
    if (!on) return OFF;
    const range = extent(spans.table, 0);
    return { appearance: appearanceOf(spans.table), scale: scaleOf(spans.table, range, range[1], true) };
  }, [spans, on]);
  const asked = timeOf((playing ? moved : null) ?? written ?? 0, scale.from);
  const at = Math.min(Math.max(asked, scale.from), scale.to);
  const { change } = params;
  const write = useCallback((time: number) => change({ replay: offsetOf(time, scale.from) }), [change, scale]);
  const stop = useCallback(() => {
    setPlaying(false);
    setMoved(null);
    change({ replay: null, speed: null });
  }, [change]);
  const show = (time: number) => {
    setMoved(time - scale.from);
    write(time);
  };
  const advance = useRef<(ms: number) => void>(() => {});
  const lastWritten = useRef(0);
  useEffect(() => {
    advance.current = (ms) => {
      const next = scale.timeAt(scale.lengthAt(at) + ms * speed);
      if (next < scale.to) {
        setMoved(next - scale.from);
        if (performance.now() - lastWritten.current < WRITE) return;
        lastWritten.current = performance.now();
        write(Math.round(next));
      } else if (live) {
        // The replay has caught up: from here on the session goes on by itself.
        stop();
      } else {
        setPlaying(false);
        write(scale.to + 1);
      }
    };
  });
  useEffect(() => {
    if (!on || !playing) return undefined;
    let before = performance.now();
    const tick = wantsCalm() ? CALM_TICK : TICK;
    const timer = window.setInterval(() => {
      const now = performance.now();
      // After a sleep of the machine or in a hidden window it goes on where it was.
      advance.current(Math.min(now - before, tick * 2));
      before = now;
    }, tick);
    return () => window.clearInterval(timer);
  }, [on, playing]);
  const shownUntil = appearance.moments[passed(appearance, at) - 1] ?? scale.from;
  const limit = useCallback((rows: Int32Array) => (on ? appeared(appearance, rows, shownUntil) : rows), [on, appearance, shownUntil]);
  return {
    on,
    playing: on && playing,
    speed,
    at,
    position: scale.lengthAt(at) - scale.lengthAt(scale.from),
    length: scale.length,
    ended: at >= scale.to,
    jumps,
    limit,
    toggle: (before) => {
      if (on) return stop();
      setJumps(before);
      setMoved(0);
      change({ replay: 0 });
      // With reduced motion nothing moves before it is started.
      return setPlaying(!wantsCalm());
    },
    play: (wanted) => {
      if (wanted && at >= scale.to) show(scale.from);
      else show(Math.round(at));
      setPlaying(wanted);
    },
    step: (direction) => {
      setPlaying(false);
      const next = stepped(appearance, at, direction);
      if (next !== null) show(next);
    },
    seek: (position) => show(Math.round(scale.timeAt(position))),
    setSpeed: (next) => change({ speed: next === USUAL ? null : next }),
  };
}
