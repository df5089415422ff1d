/** What today and the last thirty days have used: by model or agent, and day by day. */
import { useMemo } from "react";
import { Link } from "wouter";

import type { Bill, NamedBill, Overview } from "../../api/shapes";
import { useFormat } from "../../format";
import { Cost, Section, Segmented, Stat, Stats, Text, Tokens } from "../../parts";
import { useText } from "../../text";
import { address, useChoice } from "../../url";
import type { Measure } from "../usage/measure";
import { amountOf, ranked, stacksOf } from "../usage/measure";
import { MeasureSwitch, useMeasure } from "../usage/measure-switch";
import { RemarksStrip } from "../usage/remarks-strip";
import { ShareBar } from "../usage/share-bar";
import { StackedChart } from "../usage/stacked-chart";
import styles from "./spending.module.css";
import { text } from "./text";

const MOST_BARS = 6;

export function Spending({ overview }: { overview: Overview }) {
  const t = useText(text);
  const [by, setBy] = useChoice("by", ["model", "agent"]);
  const measure = useMeasure(overview.month);
  // Models have the colours they have in the chart below; agents are not in it.
  const names = useMemo(
    () =>
      stacksOf(
        overview.days.map((day) => day.parts),
        measure,
      ).names,
    [overview.days, measure],
  );
  const colour = (name: string) => (by === "agent" ? 1 : names.includes(name) ? (names.indexOf(name) % 7) + 1 : 8);
  const isModel = by === "model";
  return (
    <Section
      title={t.spending}
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
      <div className={styles.spans}>
        <Span
          title={t.today}
          since="today"
          bill={overview.today}
          parts={isModel ? overview.today_by_model : overview.today_by_agent}
          by={by}
          measure={measure}
          colour={colour}
        />
        <Span
          title={t.month}
          since="30d"
          bill={overview.month}
          parts={isModel ? overview.month_by_model : overview.month_by_agent}
          by={by}
          measure={measure}
          colour={colour}
        />
      </div>
      <Days overview={overview} measure={measure} />
      <RemarksStrip bill={overview.month} />
    </Section>
  );
}

interface SpanProps {
  title: string;
  since: string;
  bill: Bill;
  parts: NamedBill[];
  by: "model" | "agent";
  measure: Measure;
  colour: (name: string) => number;
}

/** A period: its totals, and its parts, the largest first. */
function Span({ title, since, bill, parts, by, measure, colour }: SpanProps) {
  const t = useText(text);
  const f = useFormat();
  const bars = ranked(parts, measure);
  const most = Math.max(0, ...parts.map((part) => amountOf(part.bill, measure)));
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      <Stats>
        <Stat label={t.cost} value={<Cost bill={bill} />} />
        <Stat label={t.tokens} value={<Tokens bill={bill} />} />
        <Stat label={t.responses} value={f.count(bill.requests)} />
      </Stats>
      {bars.length === 0 && <p className="faint">{t.nothingUsed}</p>}
      <ul role="list" className={styles.bars}>
        {bars.slice(0, MOST_BARS).map((part) => (
          <li key={part.name}>
            <Link href={address("/usage", { [by]: [part.name], since })} className={styles.name}>
              <Text line>{part.name || t.none}</Text>
            </Link>
            <ShareBar share={most ? amountOf(part.bill, measure) / most : 0} series={colour(part.name)} />
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
        <Link href={address("/usage", { by, since })} className={styles.more}>
          {t.moreNames(f.count(bars.length - MOST_BARS))}
        </Link>
      )}
    </section>
  );
}

function Days({ overview, measure }: { overview: Overview; measure: Measure }) {
  const t = useText(text);
  const f = useFormat();
  const groups = useMemo(
    () => overview.days.map((day) => ({ label: day.day.slice(5), title: f.day(day.day), parts: day.parts })),
    [overview.days, f],
  );
  return <StackedChart label={t.chart} groups={groups} measure={measure} height={200} />;
}
