/** A throttle: runs at once, then at most once per interval for all requests meanwhile. */
import { useEffect, useRef } from "react";

import { useLive } from "../../api/use-live";

/** The environment; tests replace it. */
export interface Clock {
  now(): number;
  /** Runs it later; the answer takes it back. */
  later(ms: number, run: () => void): () => void;
}

export class Throttle {
  private last = -Infinity;
  private waiting: (() => void) | null = null;

  constructor(
    private readonly ms: number,
    private readonly run: () => void,
    private readonly clock: Clock,
  ) {}

  readonly ask = (): void => {
    if (this.waiting) return;
    const left = this.last + this.ms - this.clock.now();
    if (left <= 0) this.go();
    else this.waiting = this.clock.later(left, this.go);
  };

  readonly stop = (): void => {
    this.waiting?.();
    this.waiting = null;
  };

  private readonly go = (): void => {
    this.waiting = null;
    this.last = this.clock.now();
    this.run();
  };
}

const CLOCK: Clock = {
  now: () => performance.now(),
  later: (ms, run) => {
    const timer = window.setTimeout(run, ms);
    return () => window.clearTimeout(timer);
  },
};

/** Refreshes when something was recorded, at most once per interval in milliseconds. */
export function useRefetchOnLive(refetch: () => unknown, ms: number): void {
  const latest = useRef(refetch);
  const throttle = useRef<Throttle | null>(null);
  useEffect(() => {
    latest.current = refetch;
  });
  useEffect(() => {
    const made = new Throttle(ms, () => void latest.current(), CLOCK);
    throttle.current = made;
    return made.stop;
  }, [ms]);
  useLive(() => throttle.current?.ask());
}
