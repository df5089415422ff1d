/** The usage of a limit, by part. */
import type { BudgetPeriod } from "../api/shapes";
import { useFormat } from "../format";
import { useText } from "../text";
import type { Tone } from "./badge";
import styles from "./meter.module.css";
import { text } from "./words";

export interface MeterPart {
  name: string;
  value: number;
  tone: Tone;
  /** Hatched: not spent yet. */
  pending?: boolean;
}

interface MeterProps {
  label: string;
  /** 0 or less: there is no limit. */
  limit: number;
  parts: readonly MeterPart[];
  /** How values are formatted; default: tokens. */
  say?: (value: number) => string;
  /** Also lists the parts with their values. */
  legend?: boolean;
}

export function Meter({ label, limit, parts, say, legend }: MeterProps) {
  const t = useText(text);
  const f = useFormat();
  const write = say ?? f.tokens;
  const taken = parts.reduce((sum, part) => sum + part.value, 0);
  const whole = limit > 0 ? Math.max(limit, taken) : Math.max(taken, 1);
  const over = limit > 0 && taken >= limit;
  const value = limit > 0 ? t.of(write(taken), write(limit)) : `${write(taken)} · ${t.noLimit}`;
  return (
    <div className={styles.whole}>
      <div className={styles.line}>
        <span>{label}</span>
        <span className={over ? styles.over : styles.value}>{value}</span>
      </div>
      <div
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={whole}
        aria-valuenow={taken}
        aria-valuetext={value}
        className={styles.meter}
        data-over={over || undefined}
      >
        {parts.map((part) =>
          part.value > 0 ? (
            <span
              key={part.name}
              className={styles[part.tone]}
              data-pending={part.pending}
              style={{ width: `${(100 * part.value) / whole}%` }}
              title={`${part.name}: ${write(part.value)}`}
            />
          ) : null,
        )}
      </div>
      {legend && (
        <ul role="list" className={styles.legend}>
          {parts.map((part) => (
            <li key={part.name}>
              <span className={`${styles.key} ${styles[part.tone]}`} data-pending={part.pending} aria-hidden="true" />
              {part.name} <strong>{write(part.value)}</strong>
            </li>
          ))}
          {limit > 0 && (
            <li>
              {t.left} <strong>{write(Math.max(limit - taken, 0))}</strong>
            </li>
          )}
        </ul>
      )}
    </div>
  );
}

/** A day or a month of the budget: the numbers that refuse calls. */
export function BudgetMeter({ label, period, legend }: { label: string; period: BudgetPeriod; legend?: boolean }) {
  const t = useText(text);
  const parts: MeterPart[] = [
    { name: t.used, value: period.used, tone: "accent" },
    { name: t.failedTokens, value: period.failed, tone: "failed" },
    { name: t.reserved, value: period.reserved, tone: "waiting", pending: true },
  ];
  return <Meter label={label} limit={period.limit} parts={parts} legend={legend} />;
}
