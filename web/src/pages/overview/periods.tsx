/** Today, this week and this month: cost, tokens, the change against the period before, and a forecast. */
import { Link } from "wouter";

import type { OverviewFigures, PeriodUsage } from "../../api/shapes";
import { useFormat } from "../../format";
import { Cost, Section, Tokens } from "../../parts";
import { useText } from "../../text";
import { address } from "../../url";
import { barsOf, sayAmounts, sayChange, sayOriginals } from "./change";
import styles from "./periods.module.css";
import { text } from "./text";

export function Periods({ figures }: { figures: OverviewFigures }) {
  const t = useText(text);
  return (
    <div>
      <div className={styles.periods}>
        {figures.periods.map((period) => (
          <Period key={period.period} period={period} />
        ))}
      </div>
      {figures.currency_problem !== null && (
        <p className={styles.problem}>
          {t.currencies} <code>usage.currency</code>, <code>usage.rates</code>{" "}
          <Link href="/settings">{t.settings}</Link>
        </p>
      )}
    </div>
  );
}

const SINCE = { day: "today", week: "this-week", month: "this-month" } as const;

function Period({ period }: { period: PeriodUsage }) {
  const t = useText(text);
  const f = useFormat();
  const names = t.periods[period.period];
  const priced = Object.keys(period.bill.costs).length > 0 || period.bill.unpriced_tokens === 0;
  const originals = sayOriginals(period, f);
  return (
    <Section
      title={<Link href={address("/usage", { since: SINCE[period.period], by: period.period === "day" ? "model" : null })}>{names.title}</Link>}
      className={styles.period}
    >
      <dl className={styles.figures}>
        <div className={styles.main}>
          <dt>{t.cost}</dt>
          <dd className={priced ? undefined : "soft"}>
            <Cost bill={period.bill} hint={originals ? t.originals(originals) : undefined} />
          </dd>
          <Change change={period.cost_change} before={sayAmounts(period.before.bill.costs, f)} period={period} />
        </div>
        <div>
          <dt>{t.tokens}</dt>
          <dd>
            <Tokens bill={period.bill} />
          </dd>
          <Change change={period.token_change} before={f.tokens(period.before.tokens)} period={period} brief />
        </div>
        <div>
          <dt title={t.forecastNote}>{t.forecast}</dt>
          <dd className={styles.forecast}>
            <Forecast period={period} />
          </dd>
          <dd className={styles.note} title={t.forecastNote}>{names.whole(sayAmounts(period.whole_before.bill.costs, f) ?? f.tokens(period.whole_before.tokens))}</dd>
        </div>
      </dl>
      <Spark period={period} />
    </Section>
  );
}

interface ChangeProps {
  change: number | null;
  before: string | null;
  period: PeriodUsage;
  /** Only the number. */
  brief?: boolean;
}

/** The change against the same part of the period before, with what was used then as a hint. */
function Change({ change, before, period, brief = false }: ChangeProps) {
  const t = useText(text);
  const f = useFormat();
  const said = sayChange(change);
  const names = t.periods[period.period];
  if (said === null && brief) return null;
  // Costs in several currencies are not compared, but they were there.
  if (said === null) return <dd className={styles.note}>{period.before.tokens > 0 && before ? names.earlier(before) : names.noChange}</dd>;
  const until = f.clock(period.before.until);
  return (
    <dd className={styles.note} title={names.compared(before ?? "–", until)}>
      <strong>{said}</strong> <span className={brief ? "unseen" : undefined}>{names.against}</span>
    </dd>
  );
}

function Forecast({ period }: { period: PeriodUsage }) {
  const f = useFormat();
  if (period.tokens === 0) return <>–</>;
  return <>≈ {sayAmounts(period.forecast_costs, f) ?? f.tokens(period.forecast_tokens)}</>;
}

const HEIGHT = 28;

/** Today by hour, the others by day; what is to come is there as a line. */
function Spark({ period }: { period: PeriodUsage }) {
  const t = useText(text);
  const f = useFormat();
  const bars = barsOf(period.parts, Object.keys(period.bill.costs), f, t.responses);
  const width = 100 / bars.length;
  const label = (name: string) => (period.period === "day" ? name : f.day(name));
  const used = bars.filter((bar) => bar.height > 0);
  return (
    <svg
      className={styles.spark}
      viewBox={`0 0 100 ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={t.spark(t.periods[period.period].title, used.map((bar) => `${label(bar.name)} ${bar.says}`).join(", ") || t.nothingUsed)}
    >
      <line x1="0" x2="100" y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} vectorEffect="non-scaling-stroke" />
      {bars.map((bar, at) => (
        <g key={bar.name}>
          <title>{`${label(bar.name)}: ${bar.says}`}</title>
          <rect x={at * width} width={width} y="0" height={HEIGHT} className={styles.place} />
          <rect
            x={at * width + width * 0.12}
            width={width * 0.76}
            y={HEIGHT - bar.height * HEIGHT}
            height={bar.height * HEIGHT}
            className={styles.bar}
          />
        </g>
      ))}
    </svg>
  );
}
