/** Both sessions on a common time axis: the longer one takes the whole width. */
import { useEffect, useMemo, useRef, useState } from "react";

import type { ComparedSession, Comparison } from "../../api/shapes";
import { useFormat } from "../../format";
import { Section } from "../../parts";
import { useText } from "../../text";
import { useShownTheme } from "../../theme";
import { useFlagParam } from "../../url";
import type { Spans } from "../session/data/use-spans";
import { loadSpans } from "../session/data/use-spans";
import { extent } from "../session/model/rows";
import { ticksOf } from "../session/model/ticks";
import { TimeScale, scaleOf } from "../session/model/time-scale";
import { Toggle } from "../session/toggle";
import { drawSpans } from "../session/waterfall/draw-spans";
import { useWidth } from "../session/waterfall/use-width";
import styles from "./compare.module.css";
import { text } from "./text";

const HEIGHT = 44;
/** Pixels between two marks of the axis. */
const APART = 90;

export function TimelineSection({ found }: { found: Comparison }) {
  const t = useText(text);
  const [realTime, setRealTime] = useFlagParam("realtime");
  const a = useScaled(found.a.key, !realTime);
  const b = useScaled(found.b.key, !realTime);
  const length = Math.max(a?.scale.length ?? 0, b?.scale.length ?? 0, 1);
  return (
    <Section
      title={t.timeline}
      note={t.timelineNote}
      actions={<Toggle on={!realTime} label={t.cutPauses} onChange={(on) => setRealTime(!on)} />}
    >
      <div className={styles.strips}>
        <Strip letter="A" session={found.a} scaled={a} length={length} />
        <Strip letter="B" session={found.b} scaled={b} length={length} />
        <Axis length={length} />
      </div>
    </Section>
  );
}

interface Scaled {
  spans: Spans;
  scale: TimeScale;
  now: number;
}

/** The spans of a session, and how long everything in it is drawn. */
function useScaled(key: string, cutPauses: boolean): Scaled | null {
  const [loaded, setLoaded] = useState<Spans | null>(null);
  const spans = loaded?.key === key ? loaded : null;
  useEffect(() => {
    const leaving = new AbortController();
    // Without it the rest of the page is as good: it says itself where the server does not answer.
    loadSpans(key, leaving.signal, setLoaded).catch(() => {});
    return () => leaving.abort();
  }, [key]);
  // Comparing is about what has happened: what is open is drawn until the last thing that is known.
  return useMemo(() => {
    if (!spans) return null;
    const now = extent(spans.table, 0)[1];
    return { spans, now, scale: scaleOf(spans.table, extent(spans.table, now), now, cutPauses) };
  }, [spans, cutPauses]);
}

interface StripProps {
  letter: "A" | "B";
  session: ComparedSession;
  scaled: Scaled | null;
  length: number;
}

function Strip({ letter, session, scaled, length }: StripProps) {
  const t = useText(text);
  const f = useFormat();
  const theme = useShownTheme();
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const all = useWidth(place);
  const width = scaled ? Math.max(Math.round((all * scaled.scale.length) / length), 2) : 0;
  useEffect(() => {
    if (canvas.current && scaled && all > 0) drawSpans(canvas.current, scaled.spans.table, scaled.scale, width, HEIGHT, scaled.now, true);
  }, [scaled, all, width, theme]);
  const label = t.strip(letter, f.duration(session.duration_ms), f.count(session.turns), f.count(session.errors));
  return (
    <>
      <span className={styles.letter} data-letter={letter} aria-hidden="true">
        {letter}
      </span>
      <div ref={place} className={styles.strip} style={{ height: HEIGHT }}>
        <canvas ref={canvas} role="img" aria-label={label} title={label} style={{ width, height: HEIGHT }} />
      </div>
    </>
  );
}

function Axis({ length }: { length: number }) {
  const f = useFormat();
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const ticks = useMemo(
    () => ticksOf(new TimeScale(0, length), 0, length, Math.max(Math.floor(width / APART), 1)),
    [length, width],
  );
  return (
    <div ref={place} className={styles.axis} aria-hidden="true">
      {/* A mark at the end would have no room for its time. */}
      {ticks.filter((tick) => (1 - tick.at) * width > APART / 2).map((tick) => (
        <span key={tick.since} style={{ left: `${tick.at * 100}%` }}>
          {tick.since === 0 ? "0" : f.duration(tick.since)}
        </span>
      ))}
    </div>
  );
}
