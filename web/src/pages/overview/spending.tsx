/** What the last thirty days have used: day by day, and by model or agent. */
import { useMemo } from "react";
import { Link } from "wouter";

import type { DayUsage, NamedBill, Overview } from "../../api/shapes";
import { useFormat } from "../../format";
import { modelCss, modelNames } from "../../models";
import { Cost, ModelName, Section, Segmented, Stat, Stats, Text, Tokens } from "../../parts";
import { useText } from "../../text";
import { address, useChoice } from "../../url";
import type { Measure, Stacks } from "../usage/measure";
import { amountOf, ranked, sayAmount, stacksOf } from "../usage/measure";
import { MeasureSwitch, useMeasure } from "../usage/measure-switch";
import { RemarksStrip } from "../usage/remarks-strip";
import { ShareBar } from "../usage/share-bar";
import styles from "./spending.module.css";
import { text } from "./text";

const MOST_BARS = 6;
const OTHERS = "var(--series-8)";

export function Spending({ overview }: { overview: Overview }) {
  const t = useText(text);
  const f = useFormat();
  const [by, setBy] = useChoice("by", ["model", "agent"]);
  const measure = useMeasure(overview.month);
  const isModel = by === "model";
  return (
    <Section
      title={t.month}
      actions={
        <>
          <Segmented
            label={t.by}
            value={by}
            choices={[
              { value: "model", label: t.byModel },
              { value: "agent", label: t.byAgent },
            ]}
            onChange={setBy}
          />
          <MeasureSwitch bill={overview.month} />
        </>
      }
    >
      <Stats>
        <Stat label={t.cost} value={<Cost bill={overview.month} />} />
        <Stat label={t.tokens} value={<Tokens bill={overview.month} />} />
        <Stat label={t.responsesName} value={f.count(overview.month.requests)} />
      </Stats>
      <Days days={overview.days} measure={measure} />
      <Parts parts={isModel ? overview.month_by_model : overview.month_by_agent} by={by} measure={measure} />
      <RemarksStrip bill={overview.month} />
    </Section>
  );
}

interface PartsProps {
  parts: NamedBill[];
  by: "model" | "agent";
  measure: Measure;
}

/** Models or agents, the largest first. */
function Parts({ parts, by, measure }: PartsProps) {
  const t = useText(text);
  const f = useFormat();
  const bars = ranked(parts, measure);
  const names = useMemo(() => modelNames(parts.map((part) => part.name)), [parts]);
  const most = Math.max(0, ...parts.map((part) => amountOf(part.bill, measure)));
  return (
    <>
      {bars.length === 0 && <p className="faint">{t.nothingUsed}</p>}
      <ul role="list" className={styles.bars}>
        {bars.slice(0, MOST_BARS).map((part) => (
          <li key={part.name}>
            <Link href={address("/usage", { [by]: [part.name], since: "30d" })} className={styles.name}>
              {by === "model" && part.name ? (
                <ModelName id={part.name} name={names.get(part.name)} className={styles.cut} />
              ) : (
                <Text line>{part.name || t.none}</Text>
              )}
            </Link>
            <ShareBar
              share={most ? amountOf(part.bill, measure) / most : 0}
              colour={by === "model" ? modelCss(part.name) : undefined}
            />
            <span className={styles.number}>
              <Tokens bill={part.bill} />
            </span>
            <span className={styles.number}>
              <Cost bill={part.bill} />
            </span>
          </li>
        ))}
      </ul>
      {bars.length > MOST_BARS && (
        <Link href={address("/usage", { by, since: "30d" })} className={styles.more}>
          {t.moreNames(f.count(bars.length - MOST_BARS))}
        </Link>
      )}
    </>
  );
}

const HEIGHT = 60;

/** Thirty bars made of models; the page of usage has the same with all numbers. */
function Days({ days, measure }: { days: DayUsage[]; measure: Measure }) {
  const t = useText(text);
  const f = useFormat();
  const stacks = useMemo(
    () =>
      stacksOf(
        days.map((day) => day.parts),
        measure,
      ),
    [days, measure],
  );
  const sums = days.map((_, at) => stacks.amounts.reduce((sum, series) => sum + (series[at] ?? 0), 0));
  const most = Math.max(...sums, 0);
  const width = 100 / days.length;
  return (
    <figure className={styles.days}>
      <Link href="/usage" aria-label={t.chart} className={styles.chart}>
        <svg viewBox={`0 0 100 ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          <line x1="0" x2="100" y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} vectorEffect="non-scaling-stroke" />
          {days.map(({ day }, at) => (
            <g key={day}>
              <title>{`${f.day(day)}: ${sayAmount(sums[at] ?? 0, measure, f)}`}</title>
              <rect x={at * width} width={width} y="0" height={HEIGHT} className={styles.place} />
              {most > 0 && <Stack stacks={stacks} at={at} x={at * width + width * 0.12} width={width * 0.76} most={most} />}
            </g>
          ))}
        </svg>
      </Link>
      <figcaption>
        <span>{f.day(days[0]?.day ?? null)}</span>
        <span>{t.highest(sayAmount(most, measure, f))}</span>
        <span>{t.periods.day.title}</span>
      </figcaption>
    </figure>
  );
}

interface StackProps {
  stacks: Stacks;
  at: number;
  x: number;
  width: number;
  most: number;
}

/** The bar of a day. */
function Stack({ stacks, at, x, width, most }: StackProps) {
  let top = HEIGHT;
  return stacks.amounts.map((series, number) => {
    const height = ((series[at] ?? 0) / most) * HEIGHT;
    const name = stacks.names[number] ?? null;
    top -= height;
    return height > 0 ? <rect key={name} x={x} width={width} y={top} height={height} style={{ fill: name === null ? OTHERS : modelCss(name) }} /> : null;
  });
}
