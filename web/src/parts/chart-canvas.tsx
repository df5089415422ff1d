/** ECharts on a canvas: only the kinds of charts that pages use, in the colours of the theme. */
import { BarChart, LineChart } from "echarts/charts";
import { GridComponent, LegendComponent, TooltipComponent } from "echarts/components";
import type { EChartsCoreOption, EChartsType } from "echarts/core";
import * as echarts from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import { useEffect, useRef } from "react";

import { useLanguage } from "../text";
import { useShownTheme } from "../theme";
import type { Colours } from "./chart";
import styles from "./chart.module.css";

echarts.use([BarChart, LineChart, GridComponent, TooltipComponent, LegendComponent, CanvasRenderer]);

interface CanvasProps {
  label: string;
  option: (colours: Colours) => EChartsCoreOption;
  onPick?: (index: number, series: string) => void;
}

/** A canvas needs the values of colours in the current theme, not their names. */
function coloursOf(element: HTMLElement, dark: boolean): Colours {
  const probe = document.createElement("span");
  element.append(probe);
  const spelled = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colours: Colours = {
    ink: spelled("ink"),
    inkSoft: spelled("ink-soft"),
    inkFaint: spelled("ink-faint"),
    line: spelled("line"),
    surface: spelled("surface"),
    raised: spelled("raised"),
    accent: spelled("accent"),
    working: spelled("working"),
    waiting: spelled("waiting"),
    failed: spelled("failed"),
    money: spelled("money"),
    series: [1, 2, 3, 4, 5, 6, 7, 8].map((number) => spelled(`series-${number}`)),
    dark,
  };
  probe.remove();
  return colours;
}

/** What all charts have in common; the page's own option is laid over it. */
function common(colours: Colours, font: string): EChartsCoreOption {
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  return {
    animation: !still,
    animationDuration: 250,
    color: colours.series,
    textStyle: { fontFamily: font, fontSize: 12, color: colours.inkSoft },
    grid: { left: 4, right: 8, top: 28, bottom: 4, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    legend: { textStyle: { color: colours.inkSoft, fontSize: 12 }, icon: "roundRect", itemWidth: 10, itemHeight: 10, top: 0, type: "scroll" },
    // Rich text, not HTML: names of models and projects come from logs.
    tooltip: {
      renderMode: "richText",
      trigger: "axis",
      backgroundColor: colours.raised,
      borderColor: colours.line,
      textStyle: { color: colours.ink, fontSize: 12 },
      axisPointer: { type: "shadow", shadowStyle: { color: colours.line, opacity: 0.4 } },
    },
  };
}

/** Merges options group by group: a page that sets one option of the tooltip does not lose the others. */
function over(below: EChartsCoreOption, above: EChartsCoreOption): EChartsCoreOption {
  const merged: EChartsCoreOption = { ...below };
  for (const [name, value] of Object.entries(above)) {
    const base = below[name];
    merged[name] = isGroup(base) && isGroup(value) ? { ...base, ...value } : value;
  }
  return merged;
}

function isGroup(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export default function ChartCanvas({ label, option, onPick }: CanvasProps) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<EChartsType | null>(null);
  const pick = useRef(onPick);
  const theme = useShownTheme();
  const language = useLanguage();
  useEffect(() => {
    pick.current = onPick;
  });
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const made = echarts.init(element, null, { renderer: "canvas" });
    made.on("click", (event) => pick.current?.(event.dataIndex, event.seriesName ?? ""));
    const resize = new ResizeObserver(() => made.resize());
    resize.observe(element);
    chart.current = made;
    return () => {
      resize.disconnect();
      made.dispose();
      chart.current = null;
    };
  }, []);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const colours = coloursOf(element, theme === "dark");
    const font = getComputedStyle(element).fontFamily;
    chart.current?.setOption(over(common(colours, font), option(colours)), { notMerge: true });
  }, [option, theme, language]);
  return <div ref={place} role="img" aria-label={label} className={styles.fill} />;
}
