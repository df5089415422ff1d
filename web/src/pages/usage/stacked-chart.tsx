/** Bars that are made of parts: days by model, projects by agent. */
import type { EChartsCoreOption } from "echarts/core";
import type { ReactNode } from "react";
import { useCallback, useMemo } from "react";

import type { NamedBill } from "../../api/shapes";
import type { Format } from "../../format";
import { useFormat } from "../../format";
import { modelColour, modelNames } from "../../models";
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
  /** The parts are models, which have names and colours of their own. */
  models?: boolean;
  /** Each group is one model: its name is on the axis, so there is no legend. */
  single?: boolean;
  /** Bars are horizontal for names, from top to bottom; time runs from left to right. */
  lying?: boolean;
  height?: number;
  onPick?: (index: number) => void;
  actions?: ReactNode;
}

export function StackedChart({ label, groups, measure, models = false, single = false, lying = false, height, onPick, actions }: StackedChartProps) {
  const t = useText(text);
  const f = useFormat();
  const stacks = useMemo(
    () =>
      stacksOf(
        groups.map((group) => group.parts),
        measure,
        single ? groups.length : undefined,
      ),
    [groups, measure, single],
  );
  const names = useMemo(() => seriesNames(stacks, models, t), [stacks, models, t]);
  const option = useCallback(
    (colours: Colours) => optionOf({ groups, stacks, names, measure, models, single, lying, total: t.total }, colours, f),
    [groups, stacks, names, measure, models, single, lying, t, f],
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
  models: boolean;
  single: boolean;
  lying: boolean;
  total: string;
}

/** What series are called in the legend, each by a name of its own. */
function seriesNames(stacks: Stacks, models: boolean, t: (typeof text)["en"]): string[] {
  const called = models ? modelNames(stacks.names.filter((name) => name !== null)) : null;
  return stacks.names.map((name) => (name === null ? t.others : visible(called?.get(name) ?? name) || t.none));
}

/** The colour of a series: a model has its own, all others together are grey. */
export function colourOf(colours: Colours, { names }: Pick<Stacks, "names">, models: boolean, at: number): string {
  const name = names[at] ?? null;
  if (name === null) return colours.series[7] ?? colours.accent;
  if (models) return modelColour(name)[colours.dark ? "dark" : "light"];
  return colours.series[at % 7] ?? colours.accent;
}

function optionOf(drawn: Drawn, colours: Colours, f: Format): EChartsCoreOption {
  const { groups, stacks, names, measure, models, single, lying } = drawn;
  const legend = names.length > 1 && !single;
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
    ...(legend ? {} : { grid: { top: 8 } }),
    legend: { left: 0, data: names.map((name) => ({ name })), show: legend },
    tooltip: { formatter: (hovered: unknown) => hintOf(drawn, hovered, f), confine: true },
    series: stacks.amounts.map((data, at) => ({
      type: "bar",
      name: names[at],
      stack: "all",
      barMaxWidth: 28,
      data,
      itemStyle: { color: colourOf(colours, stacks, models, at) },
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
