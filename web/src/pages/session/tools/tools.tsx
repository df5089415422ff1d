/** The calls of the session by tool: how many, how many failed, how long they took; each call leads to its span. */
import { useMemo, useState } from "react";

import { useFormat } from "../../../format";
import type { Column, Sort } from "../../../parts";
import { Button, Empty, SearchInput, Section, StateMark, Table, Text, visible } from "../../../parts";
import { useText } from "../../../text";
import { useParams } from "../../../url";
import type { Spans } from "../data/use-spans";
import type { TextCache } from "../data/text-cache";
import { TextsContext, useTexts, useWanted } from "../data/use-texts";
import { summaryOf } from "../model/call-arguments";
import type { ToolStats } from "../model/tool-stats";
import { toolStats } from "../model/tool-stats";
import { Duration } from "../span-words";
import { text } from "./text";
import styles from "./tools.module.css";

/** Calls that are listed at first. */
const CALLS = 50;

const VALUES: Record<string, (stats: ToolStats) => number | string> = {
  tool: (stats) => stats.tool,
  calls: (stats) => stats.calls.length,
  failed: (stats) => stats.failed,
  rate: (stats) => stats.failed / stats.calls.length,
  time: (stats) => stats.time,
  median: (stats) => stats.median || 0,
  longest: (stats) => stats.longest || 0,
};

function sorted(all: readonly ToolStats[], sort: Sort): ToolStats[] {
  const value = VALUES[sort.by] ?? VALUES["calls"];
  const sign = sort.order === "asc" ? 1 : -1;
  return all.toSorted((a, b) => {
    const [one, other] = [value?.(a) ?? 0, value?.(b) ?? 0];
    return sign * (typeof one === "string" ? one.localeCompare(String(other)) : one - Number(other));
  });
}

interface ToolsProps {
  spans: Spans;
  cache: TextCache;
  /** The tool whose calls are listed; "" for none. */
  tool: string;
  onSpan: (id: string) => void;
}

export function Tools({ spans, cache, tool, onSpan }: ToolsProps) {
  const t = useText(text);
  const params = useParams();
  const [sort, setSort] = useState<Sort>({ by: "calls", order: "desc" });
  const [sought, setSought] = useState("");
  const all = useMemo(() => toolStats(spans.table), [spans]);
  const rows = useMemo(
    () => sorted(all.filter((stats) => stats.tool.toLowerCase().includes(sought.toLowerCase())), sort),
    [all, sought, sort],
  );
  const columns = useColumns((name) => params.change({ calls: name === tool ? null : name }));
  const chosen = all.find((stats) => stats.tool === tool);
  if (all.length === 0) return <Empty icon="session" title={t.none} />;
  return (
    <div className={styles.tools}>
      <div className={styles.filter}>
        <SearchInput label={t.filter} value={sought} onChange={setSought} />
      </div>
      {rows.length === 0 ? (
        <p className="faint">{t.noMatch}</p>
      ) : (
        <Table
          label={t.label}
          columns={columns}
          rows={rows}
          rowKey={(stats) => stats.tool}
          sort={sort}
          onSort={setSort}
          chosen={tool || null}
          onOpen={(stats) => params.change({ calls: stats.tool === tool ? null : stats.tool })}
        />
      )}
      {chosen && <Calls key={chosen.tool} spans={spans} cache={cache} stats={chosen} onSpan={onSpan} />}
    </div>
  );
}

function useColumns(onOpen: (tool: string) => void): Column<ToolStats>[] {
  const t = useText(text);
  const f = useFormat();
  const time = (ms: number) => (Number.isNaN(ms) ? "–" : f.duration(ms));
  return [
    {
      name: "tool",
      title: t.columns.tool,
      lead: true,
      sortable: true,
      cell: (stats) => (
        <button type="button" className={styles.tool} aria-label={t.open(visible(stats.tool))} onClick={() => onOpen(stats.tool)}>
          <Text>{stats.tool}</Text>
        </button>
      ),
    },
    { name: "calls", title: t.columns.calls, end: true, sortable: true, cell: (stats) => f.count(stats.calls.length) },
    {
      name: "failed",
      title: t.columns.failed,
      end: true,
      sortable: true,
      cell: (stats) => (stats.failed > 0 ? <span className={styles.failed}>{f.count(stats.failed)}</span> : "0"),
    },
    { name: "rate", title: t.columns.rate, end: true, sortable: true, wideOnly: true, cell: (stats) => f.percent(stats.failed, stats.calls.length) },
    { name: "time", title: t.columns.time, end: true, sortable: true, cell: (stats) => f.duration(stats.time) },
    { name: "median", title: t.columns.median, end: true, sortable: true, wideOnly: true, cell: (stats) => time(stats.median) },
    { name: "longest", title: t.columns.longest, end: true, sortable: true, wideOnly: true, cell: (stats) => time(stats.longest) },
  ];
}

interface CallsProps {
  spans: Spans;
  cache: TextCache;
  stats: ToolStats;
  onSpan: (id: string) => void;
}

function Calls({ spans, cache, stats, onSpan }: CallsProps) {
  const t = useText(text);
  const f = useFormat();
  const [most, setMost] = useState(CALLS);
  const [failed, setFailed] = useState(false);
  const { table } = spans;
  const calls = failed ? stats.calls.filter((row) => table.statusOf(row) === "error") : stats.calls;
  const shown = calls.slice(0, most);
  useWanted(cache, useMemo(() => shown.map((row) => table.ids[row] ?? ""), [shown, table]));
  return (
    <Section
      title={<Text>{t.open(stats.tool)}</Text>}
      actions={
        <label className={styles.only}>
          <input type="checkbox" checked={failed} onChange={(event) => setFailed(event.target.checked)} /> {t.onlyFailed}
        </label>
      }
    >
      <TextsContext value={cache}>
        {calls.length === 0 && <p className="faint">{t.noCalls}</p>}
        <ol role="list" className={styles.calls}>
          {shown.map((row) => (
            <li key={row}>
              <OneCall spans={spans} row={row} onSpan={onSpan} />
            </li>
          ))}
        </ol>
        {calls.length > most && (
          <Button small tone="quiet" onClick={() => setMost(most * 4)}>
            {t.more(f.count(calls.length - most))}
          </Button>
        )}
      </TextsContext>
    </Section>
  );
}

function OneCall({ spans, row, onSpan }: { spans: Spans; row: number; onSpan: (id: string) => void }) {
  const f = useFormat();
  const { table } = spans;
  const id = table.ids[row] ?? "";
  const asked = useTexts(id)?.find((piece) => piece.kind === "arguments");
  return (
    <button type="button" className={styles.call} onClick={() => onSpan(id)}>
      <StateMark state={table.statusOf(row)} bare />
      <span className={styles.when}>{f.timeOfDay(table.start[row] ?? null)}</span>
      <span className={styles.words}>
        <Text mono none="–">
          {asked ? summaryOf(asked.text) : ""}
        </Text>
      </span>
      <span className={styles.when}>
        <Duration table={table} row={row} />
      </span>
    </button>
  );
}
