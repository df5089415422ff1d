/** The groups as bars: time from left to right, the largest names from the top. */
import { useMemo } from "react";
import { useLocation } from "wouter";

import type { UsageAnswer, UsageGroup } from "../../api/shapes";
import type { Format } from "../../format";
import { useFormat } from "../../format";
import { modelName } from "../../models";
import { visible } from "../../parts";
import { useText } from "../../text";
import type { Measure } from "./measure";
import { ranked } from "./measure";
import { MeasureSwitch } from "./measure-switch";
import type { Question } from "./question";
import { nextOf, withGaps } from "./question";
import type { ChartGroup } from "./stacked-chart";
import { StackedChart } from "./stacked-chart";
import { text } from "./text";

const MOST_NAMES = 12;

interface UsageChartProps {
  answer: UsageAnswer;
  question: Question;
  measure: Measure;
}

export function UsageChart({ answer, question, measure }: UsageChartProps) {
  const t = useText(text);
  const f = useFormat();
  const [, navigate] = useLocation();
  const { by } = question;
  const isTime = by === "day" || by === "month";
  const rows = useMemo(() => {
    if (by === "day") return withGaps(answer.rows);
    return isTime ? answer.rows : ranked(answer.rows, measure).slice(0, MOST_NAMES);
  }, [answer, by, isTime, measure]);
  // Models have their own colours also where they are the groups.
  const single = by === "model" && question.split === null;
  const said = measure === "tokens" ? t.tokens : t.cost;
  const groups = useMemo(() => rows.map((row) => groupOf(row, question, said, t, f)), [rows, question, said, t, f]);
  const pick = (index: number) => {
    const row = rows[index];
    const next = row && nextOf(row, question);
    if (next) navigate(next);
  };
  return (
    <>
      <StackedChart
        label={t.chart(said, t.bys[by])}
        groups={groups}
        measure={measure}
        models={question.split === "model" || single}
        single={single}
        lying={!isTime}
        height={isTime ? 240 : 56 + rows.length * 26}
        onPick={pick}
        actions={<MeasureSwitch bill={answer.total} />}
      />
      {!isTime && answer.rows.length > rows.length && (
        <p className="faint">{t.topOnly(rows.length, f.count(answer.rows.length))}</p>
      )}
    </>
  );
}

function groupOf(row: UsageGroup, question: Question, said: string, t: (typeof text)["en"], f: Format): ChartGroup {
  const called = question.by === "model" && row.group !== null ? modelName(row.group) : row.group;
  const name = visible(row.title ?? called ?? (question.by === "project" ? t.noProject : t.none));
  const parts = question.split ? row.parts : [{ name: question.by === "model" ? (row.group ?? "") : said, bill: row.bill }];
  if (question.by === "day") return { label: name.slice(5), title: f.day(row.group), parts };
  // The end of a path distinguishes projects.
  const label = question.by === "project" ? (name.split(/[\\/]/).findLast(Boolean) ?? name) : name;
  return { label, title: name, parts };
}
