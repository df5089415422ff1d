/** Marks of the time axis: round times since the beginning, never too close to each other. */
import type { TimeScale } from "./time-scale";

const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000,
  1_800_000, 3_600_000, 7_200_000, 14_400_000, 21_600_000, 43_200_000, 86_400_000, 172_800_000, 604_800_000,
];

export interface Tick {
  time: number;
  /** Milliseconds since the beginning. */
  since: number;
  /** From 0 to 1 in the window. */
  at: number;
}

/** The ticks of a window, at most about `most` of them. */
export function ticksOf(scale: TimeScale, from: number, to: number, most: number): Tick[] {
  const start = scale.lengthAt(from);
  const length = scale.lengthAt(to) - start;
  if (length <= 0 || most < 1) return [];
  const step = STEPS.find((step) => length / step <= most) ?? STEPS.at(-1) ?? 1;
  const pauses = scale.pauses.filter((pause) => pause.to > from && pause.from < to);
  if (pauses.length > most / 2) return evenTicks(scale, start, length, most);
  const found: Tick[] = [];
  const room = 0.9 / most;
  const add = (low: number, high: number) => {
    const first = Math.ceil((low - scale.from) / step) * step;
    for (let since = first; since <= high - scale.from && found.length < most * 2; since += step) {
      const at = (scale.lengthAt(scale.from + since) - start) / length;
      if (at - (found.at(-1)?.at ?? -1) >= room) found.push({ time: scale.from + since, since, at });
    }
  };
  // Cut pauses have no ticks: a thousand hours may be one pixel.
  let low = from;
  for (const pause of pauses) {
    add(low, pause.from);
    low = Math.max(pause.to, low);
  }
  add(low, to);
  return found;
}

/** With many pauses in sight, hardly a round time is in between: the same distances instead. */
function evenTicks(scale: TimeScale, start: number, length: number, most: number): Tick[] {
  return Array.from({ length: Math.ceil(most) }, (_, index) => {
    const middle = scale.timeAt(start + (index / most) * length);
    const time = scale.pauses.find((pause) => pause.from < middle && middle < pause.to)?.to ?? middle;
    return { time, since: time - scale.from, at: (scale.lengthAt(time) - start) / length };
  });
}

/** A window of time after zooming around a moment, within bounds and never shorter than a millisecond. */
export function zoomed(scale: TimeScale, [from, to]: readonly [number, number], around: number, factor: number): [number, number] {
  const [low, high, middle] = [from, to, around].map((time) => scale.lengthAt(time)) as [number, number, number];
  return fitted(scale, middle - (middle - low) * factor, middle + (high - middle) * factor);
}

/** The window moved by a share of its length. */
export function panned(scale: TimeScale, [from, to]: readonly [number, number], share: number): [number, number] {
  const low = scale.lengthAt(from);
  const length = scale.lengthAt(to) - low;
  const moved = Math.min(Math.max(low + share * length, 0), Math.max(scale.length - length, 0));
  return fitted(scale, moved, moved + length);
}

function fitted(scale: TimeScale, low: number, high: number): [number, number] {
  const start = Math.min(Math.max(low, 0), Math.max(scale.length - 1, 0));
  const end = Math.max(Math.min(high, scale.length), start + 1);
  return [scale.timeAt(start), scale.timeAt(end)];
}
