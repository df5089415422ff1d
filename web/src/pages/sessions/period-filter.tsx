/** A filter by time: a few usual spans, or from one day to another. */
import { Button, Icon, Popup } from "../../parts";
import type { Format } from "../../format";
import { useFormat } from "../../format";
import { useText } from "../../text";
import type { Period, Preset } from "./period";
import { PRESETS, daysOf, periodOf, presetOf } from "./period";
import styles from "./period-filter.module.css";
import { periodText } from "./period-text";

interface PeriodFilterProps {
  period: Period;
  onChange: (period: Period) => void;
  /** The value in the address for all time; "" for none. */
  always?: string;
  /** The default; it is not marked as set. */
  usual?: string;
  /** Without a popup, where there is room: in a drawer. */
  open?: boolean;
}

/** The period in a few words. */
export function sayPeriod(period: Period, t: (typeof periodText)["en"], f: Format, always = ""): string {
  const { since, until } = period;
  if (!until && since === always) return t.always;
  const preset = presetOf(period);
  if (preset) return t.presets[preset];
  const { first, last } = daysOf(period);
  if (first && first === last) return f.day(first);
  const word = (text: string) => (Object.hasOwn(t.words, text) ? t.words[text as keyof typeof t.words] : text);
  const from = first ? f.day(first) : word(since);
  const to = last ? f.day(last) : word(until);
  if (!to) return t.fromOn(from);
  return from ? t.between(from, to) : t.upTo(to);
}

export function PeriodFilter(props: PeriodFilterProps) {
  const t = useText(periodText);
  const f = useFormat();
  const { period, always = "", usual = always } = props;
  if (props.open) return <Choices {...props} />;
  const set = Boolean(period.until) || period.since !== usual;
  return (
    <Popup
      set={set}
      button={
        <>
          <span>{t.label}</span>
          {(set || always) && <strong className={styles.said}>{sayPeriod(period, t, f, always)}</strong>}
          <Icon name="down" size={12} />
        </>
      }
    >
      {() => <Choices {...props} />}
    </Popup>
  );
}

function Choices({ period, onChange, always = "" }: PeriodFilterProps) {
  const t = useText(periodText);
  const chosen = presetOf(period);
  const { first, last } = daysOf(period);
  return (
    <div className={styles.choices}>
      <div role="group" aria-label={t.label} className={styles.presets}>
        {(Object.keys(PRESETS) as Preset[]).map((name) => (
          <button key={name} type="button" aria-pressed={name === chosen} onClick={() => onChange(PRESETS[name])}>
            {t.presets[name]}
          </button>
        ))}
        <button
          type="button"
          aria-pressed={!period.until && period.since === always}
          onClick={() => onChange({ since: always, until: "" })}
        >
          {t.always}
        </button>
      </div>
      <div className={styles.days}>
        <label>
          {t.first}
          <input
            type="date"
            value={first}
            max={last || undefined}
            onChange={(event) => onChange(periodOf(event.target.value, last))}
          />
        </label>
        <label>
          {t.last}
          <input
            type="date"
            value={last}
            min={first || undefined}
            onChange={(event) => onChange(periodOf(first, event.target.value))}
          />
        </label>
        {(first || last) && (
          <Button tone="quiet" small onClick={() => onChange({ since: always, until: "" })}>
            {t.clear}
          </Button>
        )}
      </div>
    </div>
  );
}
