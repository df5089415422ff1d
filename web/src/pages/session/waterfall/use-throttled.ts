/** A function that is called at most once in a time, the last time with the last value. */
import { useCallback, useEffect, useRef } from "react";

export function useThrottled<T>(run: (value: T) => void, ms: number): (value: T) => void {
  const latest = useRef(run);
  const waiting = useRef<{ timer: number; value: T } | null>(null);
  const last = useRef(Number.NEGATIVE_INFINITY);
  useEffect(() => {
    latest.current = run;
  });
  useEffect(() => () => window.clearTimeout(waiting.current?.timer), []);
  return useCallback(
    (value: T) => {
      if (waiting.current) {
        waiting.current.value = value;
        return;
      }
      const call = () => {
        last.current = performance.now();
        const held = waiting.current?.value ?? value;
        waiting.current = null;
        latest.current(held);
      };
      const rest = last.current + ms - performance.now();
      if (rest <= 0) call();
      else waiting.current = { timer: window.setTimeout(call, rest), value };
    },
    [ms],
  );
}
