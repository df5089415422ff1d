/** Maps time to length, linearly or with pauses cut, and back. */
import { byStart } from "./span-order";
import type { SpanTable } from "./span-table";

/** A pause that is drawn shorter than it was. */
export interface Pause {
  from: number;
  to: number;
}

/** Pauses longer than this share of all activity are cut to it, within these bounds in milliseconds. */
const SHARE = 0.01;
const SHORTEST = 1000;
const LONGEST = 60_000;

export class TimeScale {
  /** The starts of time segments, and the length before each; linear between two of them. */
  private readonly times: number[];
  private readonly lengths: number[];

  constructor(
    readonly from: number,
    readonly to: number,
    readonly pauses: readonly Pause[] = [],
    cut = 0,
  ) {
    this.times = [from];
    this.lengths = [0];
    let length = 0;
    let at = from;
    const step = (to: number, grows: number) => {
      if (to <= at) return;
      length += grows;
      at = to;
      this.times.push(to);
      this.lengths.push(length);
    };
    for (const pause of pauses) {
      step(pause.from, pause.from - at);
      step(pause.to, cut);
    }
    step(to, to - at);
  }

  get length(): number {
    return this.lengths.at(-1) ?? 0;
  }

  /** The length before a moment; linear before the beginning and after the end. */
  lengthAt(time: number): number {
    return between(this.times, this.lengths, time);
  }

  timeAt(length: number): number {
    return between(this.lengths, this.times, length);
  }
}

/** The value of a piecewise linear function with increasing coordinates. */
function between(xs: readonly number[], ys: readonly number[], x: number): number {
  const end = xs.length - 1;
  if (x <= (xs[0] ?? 0)) return (ys[0] ?? 0) + x - (xs[0] ?? 0);
  if (x >= (xs[end] ?? 0)) return (ys[end] ?? 0) + x - (xs[end] ?? 0);
  let low = 0;
  let high = end;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((xs[middle] ?? 0) <= x) low = middle;
    else high = middle;
  }
  const [x0 = 0, x1 = 0, y0 = 0, y1 = 0] = [xs[low], xs[high], ys[low], ys[high]];
  return x1 === x0 ? y0 : y0 + ((x - x0) / (x1 - x0)) * (y1 - y0);
}

/** The segments with activity: model calls, tools and turns without either. */
function activity(table: SpanTable, now: number): Pause[] {
  const found: Pause[] = [];
  for (const row of byStart(table)) {
    const from = table.start[row] ?? 0;
    // A turn begins with its prompt; its duration depends on its children.
    const to = table.kindOf(row) === "turn" && table.order.opens(row) ? from : table.endOf(row, now);
    const last = found.at(-1);
    if (last && from <= last.to) last.to = Math.max(last.to, to);
    else found.push({ from, to });
  }
  return found;
}

/** The scale of a session, with its pauses cut short or not. */
export function scaleOf(table: SpanTable, [from, to]: readonly [number, number], now: number, cutPauses: boolean): TimeScale {
  if (!cutPauses) return new TimeScale(from, to);
  const stretches = activity(table, now);
  const active = stretches.reduce((sum, stretch) => sum + stretch.to - stretch.from, 0);
  const cut = Math.min(Math.max(active * SHARE, SHORTEST), LONGEST);
  const pauses: Pause[] = [];
  stretches.forEach((stretch, at) => {
    const before = stretches[at - 1];
    if (before && stretch.from - before.to > cut) pauses.push({ from: before.to, to: stretch.from });
  });
  const end = stretches.at(-1)?.to ?? to;
  if (to - end > cut) pauses.push({ from: end, to });
  return new TimeScale(from, to, pauses, cut);
}
