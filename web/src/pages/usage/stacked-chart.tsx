/** Bars that are made of parts: days by model, projects by agent. */
import type { EChartsCoreOption } from "echarts/core";
import type { ReactNode } from "react";
import { useCallback, useMemo } from "react";

import type { NamedBill } from "../../api/shapes";
import type { Format } from "../../format";
import { useFormat } from "../../format";
import type { Colours } from "../../parts";
import { Chart, visible } from "../../parts";
import { useText } from "../../text";
import type { Measure, Stacks } from "./measure";
import { sayAmount, stacksOf } from "./measure";
import { text } from "./text";

export interface ChartGroup {
  /** On the axis. */
  label: string;
  /** In the hint and the table. */
  title: string;
  parts: readonly NamedBill[];
}

interface StackedChartProps {
  /** A description in one sentence. */
  label: string;
  groups: readonly ChartGroup[];
  measure: Measure;
  /** Bars are horizontal for names, from top to bottom; time runs from left to right. */
  lying?: boolean;
  height?: number;
  onPick?: (index: number) => void;
  actions?: ReactNode;
}

export function StackedChart({ label, groups, measure, lying = false, height, onPick, actions }: StackedChartProps) {
  const t = useText(text);
  const f = useFormat();
  const stacks = useMemo(
    () =>
      stacksOf(
        groups.map((group) => group.parts),
        measure,
      ),
    [groups, measure],
  );
  const names = useMemo(() => stacks.names.map((name) => (name === null ? t.others : visible(name) || t.none)), [stacks, t]);
  const option = useCallback(
    (colours: Colours) => optionOf({ groups, stacks, names, measure, lying, total: t.total }, colours, f),
    [groups, stacks, names, measure, lying, t, f],
  );
  const table = useMemo(
    () => ({
      head: [t.group, ...names, t.total],
      rows: groups.map((group, at) => {
        const amounts = stacks.amounts.map((series) => series[at] ?? 0);
        const sum = amounts.reduce((all, amount) => all + amount, 0);
        return [group.title, ...[...amounts, sum].map((amount) => (amount ? sayAmount(amount, measure, f) : "–"))];
      }),
    }),
    [groups, stacks, names, measure, t, f],
  );
  return (
    <Chart
      label={label}
      option={option}
      table={table}
      height={height}
      actions={actions}
      onPick={onPick && ((index) => onPick(index))}
    />
  );
}

interface Drawn {
  groups: readonly ChartGroup[];
  stacks: Stacks;
  names: readonly string[];
  measure: Measure;
  lying: boolean;
  total: string;
}

/** The colour of a series: the last one is grey, which is what all others together have. */
export function colourOf(colours: Colours, stacks: Pick<Stacks, "names">, at: number): string {
  return (stacks.names[at] === null ? colours.series[7] : colours.series[at % 7]) ?? colours.accent;
}

function optionOf(drawn: Drawn, colours: Colours, f: Format): EChartsCoreOption {
  const { groups, stacks, names, measure, lying } = drawn;
  const categories = {
    type: "category",
    data: groups.map((group) => group.label),
    inverse: lying,
    axisLine: { lineStyle: { color: colours.line } },
    axisTick: { show: false },
    axisLabel: { color: colours.inkFaint, fontSize: 11, ...(lying ? { width: 150, overflow: "truncate" } : {}) },
  };
  const values = {
    type: "value",
    splitNumber: 3,
    splitLine: { lineStyle: { color: colours.line } },
    axisLabel: { color: colours.inkFaint, fontSize: 11, formatter: (amount: number) => round(sayAmount(amount, measure, f)) },
  };
  return {
    xAxis: lying ? values : categories,
    yAxis: lying ? categories : values,
    ...(names.length > 1 ? {} : { grid: { top: 8 } }),
    legend: { left: 0, data: names.map((name) => ({ name })), show: names.length > 1 },
    tooltip: { formatter: (hovered: unknown) => hintOf(drawn, hovered, f), confine: true },
    series: stacks.amounts.map((data, at) => ({
      type: "bar",
      name: names[at],
      stack: "all",
      barMaxWidth: 28,
      data,
      itemStyle: { color: colourOf(colours, stacks, at) },
      emphasis: { disabled: true },
    })),
  };
}

interface Hovered {
  dataIndex: number;
  seriesIndex?: number;
  marker?: unknown;
}

/** The parts of the bar below the pointer that are something, and their sum. */
function hintOf({ groups, stacks, names, measure, total }: Drawn, hovered: unknown, f: Format): string {
  const all = (Array.isArray(hovered) ? hovered : [hovered]) as Hovered[];
  const at = all[0]?.dataIndex ?? 0;
  const amounts = all.map(({ seriesIndex = 0, marker }) => ({
    name: plain(names[seriesIndex] ?? ""),
    amount: stacks.amounts[seriesIndex]?.[at] ?? 0,
    marker: typeof marker === "string" ? marker : "",
  }));
  const sum = amounts.reduce((whole, { amount }) => whole + amount, 0);
  const lines = amounts
    .filter(({ amount }) => amount > 0)
    .map(({ marker, name, amount }) => `${marker}${name}  ${sayAmount(amount, measure, f)}`);
  const whole = lines.length === 1 ? [] : [`${total}  ${sayAmount(sum, measure, f)}`];
  return [plain(groups[at]?.title ?? ""), ...lines, ...whole].join("\n");
}

/** Braces have a meaning in the rich text of ECharts, and names of models come from logs. */
function plain(name: string): string {
  return name.replace(/[{}|]/g, " ").slice(0, 80);
}

/** Without the zeros that all steps of an axis have. */
function round(amount: string): string {
  return amount.replace(/\.0+(?=[kMB]?$)/, "");
}
