/** Moments: how long ago, with the exact time as a hint. */
import { useSyncExternalStore } from "react";

import { useFormat } from "../format";
import { Store } from "../store";

const now = new Store(Date.now());
let watchers = 0;
let timer = 0;

/** One clock for all components; it stops while the page is hidden. */
function subscribe(listener: () => void): () => void {
  const leave = now.subscribe(listener);
  watchers += 1;
  if (watchers === 1) timer = window.setInterval(() => !document.hidden && now.set(Date.now()), 1000);
  return () => {
    leave();
    watchers -= 1;
    if (watchers === 0) window.clearInterval(timer);
  };
}

/** Milliseconds since 1970, updated at this interval: a component that shows minutes is not rendered every second. */
export function useNow(seconds = 1): number {
  const step = seconds * 1000;
  return useSyncExternalStore(subscribe, () => Math.floor(now.value / step) * step);
}

interface TimeProps {
  at: string | null;
  /** `ago`: 3 minutes ago; `clock`: 14:03 or 15 Nov; `exact`: to the second. */
  as?: "ago" | "clock" | "exact";
}

export function Time({ at, as = "ago" }: TimeProps) {
  const f = useFormat();
  if (!at) return <span className="faint">–</span>;
  return (
    <time dateTime={at} title={f.exact(at)}>
      {as === "ago" ? <Ago at={at} /> : f[as](at)}
    </time>
  );
}

function Ago({ at }: { at: string }) {
  const f = useFormat();
  const then = Date.parse(at);
  // Seconds only count in the first minute; a list of old sessions is not drawn every second.
  const now = useNow(Date.now() - then < 60_000 ? 1 : 10);
  // The clock may be slightly behind new data: nothing recorded is in the future.
  return <>{f.ago(at, Math.max(now, then))}</>;
}

/** How long something took, or has been taking. */
export function Elapsed({ start, end }: { start: string | null; end: string | null }) {
  const f = useFormat();
  return start && !end ? <Running start={start} /> : <>{f.between(start, end)}</>;
}

function Running({ start }: { start: string }) {
  return <>{useFormat().between(start, null, Math.max(useNow(), Date.parse(start)))}</>;
}
