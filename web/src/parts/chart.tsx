/** A chart, and the same numbers as a table: ECharts is loaded when the first one is shown. */
import type { EChartsCoreOption } from "echarts/core";
import type { ReactNode } from "react";
import { Suspense, lazy, useState } from "react";

import { useText } from "../text";
import { Boundary } from "./boundary";
import styles from "./chart.module.css";
import { Segmented } from "./controls";
import { Failed, Loading } from "./states";
import { text } from "./words";

const Canvas = lazy(() => import("./chart-canvas"));

/** The colours of the theme that is shown, as a canvas needs them. */
export interface Colours {
  ink: string;
  inkSoft: string;
  inkFaint: string;
  line: string;
  surface: string;
  raised: string;
  accent: string;
  working: string;
  waiting: string;
  failed: string;
  money: string;
  series: string[];
  dark: boolean;
}

export interface ChartTable {
  head: readonly string[];
  rows: readonly (readonly ReactNode[])[];
}

interface ChartProps {
  /** A description for screen readers. */
  label: string;
  /** Pass the same function while the data is the same: a new function redraws the chart. */
  option: (colours: Colours) => EChartsCoreOption;
  /** The same numbers. */
  table: ChartTable;
  height?: number;
  /** A bar or point was clicked: its index in the data, and its series. */
  onPick?: (index: number, series: string) => void;
  /** Next to the switch between chart and table. */
  actions?: ReactNode;
}

export function Chart({ label, option, table, height = 220, onPick, actions }: ChartProps) {
  const t = useText(text);
  const [view, setView] = useState<"chart" | "table">("chart");
  return (
    <figure className={styles.figure} aria-label={label}>
      <div className={styles.head}>
        {actions}
        <Segmented
          label={label}
          value={view}
          onChange={setView}
          choices={[
            { value: "chart", label: t.chart },
            { value: "table", label: t.table },
          ]}
        />
      </div>
      {view === "chart" ? (
        <div style={{ height }} className={styles.canvas}>
          <Boundary instead={(error, retry) => <Failed error={error} retry={retry} />}>
            <Suspense fallback={<Loading lines={Math.floor(height / 32)} />}>
              <Canvas label={label} option={option} onPick={onPick} />
            </Suspense>
          </Boundary>
        </div>
      ) : (
        <Numbers label={label} table={table} most={height} />
      )}
    </figure>
  );
}

function Numbers({ label, table, most }: { label: string; table: ChartTable; most: number }) {
  return (
    // Scrollable by keyboard.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className={styles.numbers} style={{ maxHeight: Math.max(most, 200) }} tabIndex={0} role="group" aria-label={label}>
      <table>
        <thead>
          <tr>
            {table.head.map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((cells, row) => (
            // Rows have no other key than their index, and none of them has state.
            // oxlint-disable-next-line react/no-array-index-key
            <tr key={row}>
              {cells.map((cell, column) =>
                column === 0 ? (
                  <th key={table.head[0]} scope="row">
                    {cell}
                  </th>
                ) : (
                  <td key={table.head[column]}>{cell}</td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
