/** The context of each model call as a stack of its parts; cache breaks are marked. */
import type { EChartsCoreOption } from "echarts/core";
import { useCallback, useMemo } from "react";

import type { RequestRow } from "../../../api/shapes";
import type { Format } from "../../../format";
import { useFormat } from "../../../format";
import type { Colours } from "../../../parts";
import { Chart } from "../../../parts";
import { useText } from "../../../text";
import type { PartName } from "./parts";
import { knownParts, PARTS, sizeOf } from "./parts";
import { text } from "./text";

type Words = ReturnType<typeof useText<(typeof text)["en"]>>;

interface RequestsChartProps {
  rows: readonly RequestRow[];
  onPick: (row: RequestRow) => void;
}

export function RequestsChart({ rows, onPick }: RequestsChartProps) {
  const t = useText(text);
  const f = useFormat();
  const parts = useMemo(() => knownParts(rows), [rows]);
  const option = useCallback((colours: Colours) => optionOf(rows, parts, t, colours, f), [rows, parts, t, f]);
  const table = useMemo(
    () => ({
      head: [t.columns.call, ...parts.map((part) => t.parts[part]), t.total],
      rows: rows.map((row) => [
        f.count(row.call),
        ...parts.map((part) => f.count(sizeOf(row, part))),
        f.count(row.characters),
      ]),
    }),
    [rows, parts, t, f],
  );
  const pick = (index: number) => {
    const row = rows[index];
    if (row) onPick(row);
  };
  return <Chart label={t.chart} option={option} table={table} height={240} onPick={pick} />;
}

function optionOf(
  rows: readonly RequestRow[],
  parts: readonly PartName[],
  t: Words,
  colours: Colours,
  f: Format,
): EChartsCoreOption {
  const bars = parts.map((part) => ({
    type: "bar",
    name: t.parts[part],
    stack: "context",
    barMaxWidth: 28,
    data: rows.map((row) => sizeOf(row, part)),
    itemStyle: { color: colours.series[PARTS.indexOf(part)] ?? colours.accent },
    emphasis: { disabled: true },
  }));
  // A line without a line: only its marks, above the bars.
  const breaks = {
    type: "line",
    name: t.cacheBreak,
    data: rows.map((row) => (row.cache_lost_tokens > 0 ? row.characters : null)),
    symbol: "triangle",
    symbolSize: 11,
    symbolRotate: 180,
    symbolOffset: [0, -9],
    lineStyle: { width: 0 },
    itemStyle: { color: colours.failed },
    tooltip: { show: false },
  };
  return {
    xAxis: {
      type: "category",
      data: rows.map((row) => String(row.call)),
      axisLine: { lineStyle: { color: colours.line } },
      axisTick: { show: false },
      axisLabel: { color: colours.inkFaint, fontSize: 11 },
    },
    yAxis: {
      type: "value",
      splitNumber: 3,
      splitLine: { lineStyle: { color: colours.line } },
      axisLabel: { color: colours.inkFaint, fontSize: 11, formatter: (size: number) => f.tokens(size) },
    },
    legend: { left: 0, data: [...parts.map((part) => t.parts[part]), t.cacheBreak].map((name) => ({ name })) },
    tooltip: { confine: true, valueFormatter: (size: unknown) => (typeof size === "number" ? f.count(size) : "–") },
    series: [...bars, breaks],
  };
}
