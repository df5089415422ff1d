/** When agents worked: the last weeks by day and hour, as a map and as a table. */
import { useMemo, useRef, useState } from "react";
import type { KeyboardEvent } from "react";
import { useLocation } from "wouter";

import type { ActiveDay } from "../../api/shapes";
import { useFormat } from "../../format";
import { Section, Segmented } from "../../parts";
import { useText } from "../../text";
import { address } from "../../url";
import { dayPlus } from "../sessions/period";
import styles from "./activity.module.css";
import type { Place } from "./heat";
import { hourText, levelOf, moved, thresholds } from "./heat";
import { text } from "./text";

const HOURS = Array.from({ length: 24 }, (_, hour) => hour);

export function Activity({ days }: { days: ActiveDay[] }) {
  const t = useText(text);
  const [view, setView] = useState<"map" | "table">("map");
  return (
    <Section
      title={t.activity}
      note={t.activityNote}
      actions={
        <Segmented
          label={t.activity}
          value={view}
          onChange={setView}
          choices={[
            { value: "map", label: t.map },
            { value: "table", label: t.table },
          ]}
        />
      }
    >
      {view === "map" ? <HeatMap days={days} /> : <Numbers days={days} />}
    </Section>
  );
}

/** The sessions with activity in an hour; the server takes times without an offset in its own zone. */
function sessionsOf(day: string, hour: number): string {
  const until = hour === 23 ? `${dayPlus(day, 1)}T00:00` : `${day}T${hourText(hour + 1)}`;
  return address("/sessions", { since: `${day}T${hourText(hour)}`, until });
}

function HeatMap({ days }: { days: ActiveDay[] }) {
  const t = useText(text);
  const f = useFormat();
  const [, navigate] = useLocation();
  const grid = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<Place | null>(null);
  const steps = useMemo(() => thresholds(days), [days]);
  // One cell is in the order of the Tab key: the last one that was used, at first the latest hour of today.
  const focus = at ?? { day: days.length - 1, hour: new Date().getHours() };
  const say = ({ day, hour }: Place) => {
    const found = days[day];
    return found ? t.hour(`${f.day(found.day)} ${hourText(hour)}–${hourText((hour + 1) % 24)}`, t.responses(f.count(found.hours[hour] ?? 0))) : "";
  };
  const open = ({ day, hour }: Place) => {
    const found = days[day];
    if (found?.hours[hour]) navigate(sessionsOf(found.day, hour));
  };
  const press = (event: KeyboardEvent, place: Place) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(place);
      return;
    }
    const next = moved(place, event.key, days.length);
    if (!next) return;
    event.preventDefault();
    setAt(next);
    grid.current?.querySelector<HTMLElement>(`[data-place="${next.day}-${next.hour}"]`)?.focus();
  };
  return (
    <>
      <div
        ref={grid}
        role="grid"
        aria-label={t.activityLabel}
        className={styles.map}
        style={{ gridTemplateColumns: `2.4rem repeat(${days.length}, minmax(0, 1fr))` }}
        onMouseLeave={() => setAt(null)}
      >
        {HOURS.map((hour) => (
          <div key={hour} role="row" className={styles.row}>
            <span role="rowheader" className={styles.hour}>
              <span className={hour % 6 === 0 ? undefined : "unseen"}>{hourText(hour)}</span>
            </span>
            {days.map((day, number) => {
              const place = { day: number, hour };
              return (
                <span
                  key={day.day}
                  role="gridcell"
                  data-place={`${number}-${hour}`}
                  data-level={levelOf(day.hours[hour] ?? 0, steps)}
                  tabIndex={focus.day === number && focus.hour === hour ? 0 : -1}
                  aria-label={say(place)}
                  className={styles.cell}
                  onMouseEnter={() => setAt(place)}
                  onFocus={() => setAt(place)}
                  onClick={() => open(place)}
                  onKeyDown={(event) => press(event, place)}
                />
              );
            })}
          </div>
        ))}
      </div>
      <div className={styles.foot}>
        <div className={styles.days} style={{ gridTemplateColumns: `2.4rem repeat(${days.length}, minmax(0, 1fr))` }} aria-hidden="true">
          <span />
          {days.map(({ day }, number) => (
            <span key={day}>{isMonday(day) && number < days.length - 2 ? f.day(day).replace(/ \d{4}$/, "").replace(/^\d{4}年/, "") : ""}</span>
          ))}
        </div>
        <p className={styles.said}>
          <span>{at ? say(at) : t.activityHint}</span>
          <span className={styles.legend} aria-hidden="true">
            {t.less}
            {[0, 1, 2, 3, 4].map((level) => (
              <i key={level} data-level={level} className={styles.cell} />
            ))}
            {t.more}
          </span>
        </p>
      </div>
    </>
  );
}

function isMonday(day: string): boolean {
  return new Date(`${day}T00:00Z`).getUTCDay() === 1;
}

/** The same as numbers, the latest day first. */
function Numbers({ days }: { days: ActiveDay[] }) {
  const t = useText(text);
  const f = useFormat();
  return (
    // Scrollable by keyboard.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className={styles.numbers} tabIndex={0} role="group" aria-label={t.activityLabel}>
      <table aria-label={t.activityLabel}>
        <thead>
          <tr>
            <th scope="col">{t.dayName}</th>
            <th scope="col">{t.total}</th>
            {HOURS.map((hour) => (
              <th key={hour} scope="col">
                {hourText(hour)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {days.toReversed().map(({ day, hours }) => (
            <tr key={day}>
              <th scope="row">{f.day(day)}</th>
              <td>{f.count(hours.reduce((sum, count) => sum + count, 0))}</td>
              {HOURS.map((hour) => (
                <td key={hour}>{hours[hour] ? f.count(hours[hour]) : "–"}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
