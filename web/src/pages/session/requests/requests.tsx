/** What each model call was sent: a chart of the context by part, and a table with the cache and what changed. */
import { useMemo, useState } from "react";

import { usePages } from "../../../api/queries";
import type { OfferedTool, RequestList, RequestRow } from "../../../api/shapes";
import type { Format } from "../../../format";
import { useFormat } from "../../../format";
import type { Column } from "../../../parts";
import { Button, Empty, Failed, Loading, ModelName, Section, Select, Table, Text, visible } from "../../../parts";
import { useText } from "../../../text";
import { useParams } from "../../../url";
import { useRefetchOnLive } from "../../usage/throttle";
import { useSessionTools } from "../session-context";
import { Changes, hasChanges } from "./changes";
import { commonSource, largest, PARTS, streamsOf } from "./parts";
import { RequestsChart } from "./requests-chart";
import styles from "./requests.module.css";
import { text } from "./text";

type Words = ReturnType<typeof useText<(typeof text)["en"]>>;

/** Calls in one answer, and rows that are shown at first. */
const PAGE = 1000;
const ROWS = 200;
/** Cache breaks that are listed at first. */
const BREAKS = 5;
/** A working session is read anew at this interval, in milliseconds; a long one less often, because all of it is read. */
const EVERY = 10_000;
const EVERY_CALL = 20;

export function Requests({ session }: { session: string }) {
  const t = useText(text);
  const query = usePages<RequestRow, RequestList>(`/sessions/${session}/requests`, { limit: PAGE });
  const live = useSessionTools().live;
  useRefetchOnLive(() => live && query.refetch(), Math.max(EVERY, (query.first?.calls ?? 0) * EVERY_CALL));
  if (!query.first) return query.error ? <Failed error={query.error} retry={() => void query.refetch()} /> : <Loading lines={12} />;
  return (
    <div className={styles.requests}>
      {query.first.calls === 0 ? <Empty icon="session" title={t.empty} /> : <Answer rows={query.items} answer={query.first} />}
      {query.hasNextPage && (
        <Button disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          {t.loadMore}
        </Button>
      )}
    </div>
  );
}

function Answer({ rows, answer }: { rows: readonly RequestRow[]; answer: RequestList }) {
  const t = useText(text);
  const f = useFormat();
  const params = useParams();
  const streams = useMemo(() => streamsOf(rows), [rows]);
  const asked = params.text("agent");
  const stream = streams.includes(asked) ? asked : (streams[0] ?? "");
  const shown = useMemo(() => rows.filter((row) => row.stream === stream), [rows, stream]);
  const tools = useMemo(() => answer.tools.filter((tool) => tool.stream === stream), [answer, stream]);
  const unknown = PARTS.filter((part) => shown.some((row) => row.known_from !== "usage" && row.unknown_parts.includes(part)));
  const { details } = useSessionTools();
  const open = (row: RequestRow) => row.span_id !== null && details(row.span_id);
  return (
    <>
      <div className={styles.head}>
        {streams.length > 1 && (
          <Select
            label={t.agent}
            value={stream}
            options={streams.map((name) => ({ value: name, label: name === "main" ? t.main : visible(name) }))}
            onChange={(name) => params.change({ agent: name === "main" ? null : name })}
          />
        )}
        <p className="faint">
          {t.summary(f.count(answer.calls), f.count(answer.cache_breaks), f.count(answer.compactions))} · {t.note}{" "}
          {unknown.length > 0 && t.unknown(unknown.map((part) => t.parts[part]).join(", "))} <KnownFrom rows={shown} />
        </p>
      </div>
      <CacheBreaks rows={shown} onOpen={open} />
      <RequestsChart rows={shown} onPick={open} />
      <Calls rows={shown} onOpen={open} />
      <CameAndWent tools={tools} />
    </>
  );
}

/** At which calls the cache broke, what that cost and why: the largest losses, in order. */
function CacheBreaks({ rows, onOpen }: { rows: readonly RequestRow[]; onOpen: (row: RequestRow) => void }) {
  const t = useText(text);
  const f = useFormat();
  const [all, setAll] = useState(false);
  const breaks = useMemo(() => rows.filter((row) => row.cache_lost_tokens > 0), [rows]);
  if (breaks.length === 0) return null;
  const lost = breaks.reduce((sum, row) => sum + row.cache_lost_tokens, 0);
  return (
    <Section title={t.breaksTitle(f.count(breaks.length), f.tokens(lost))}>
      <ul className={styles.breaks}>
        {(all ? breaks : largest(breaks, BREAKS)).map((row) => (
          <li key={row.call}>
            <button type="button" className={styles.call} aria-label={t.openCall(f.count(row.call))} onClick={() => onOpen(row)}>
              {t.callNumber(f.count(row.call))}
            </button>
            <Changes row={row} />
          </li>
        ))}
      </ul>
      {!all && breaks.length > BREAKS && <Button onClick={() => setAll(true)}>{t.allBreaks(f.count(breaks.length))}</Button>}
    </Section>
  );
}

function Calls({ rows, onOpen }: { rows: readonly RequestRow[]; onOpen: (row: RequestRow) => void }) {
  const t = useText(text);
  const f = useFormat();
  const [most, setMost] = useState(ROWS);
  const columns = useMemo(() => columnsOf(rows, t, f, onOpen), [rows, t, f, onOpen]);
  return (
    <>
      <Table scrolls label={t.label} columns={columns} rows={rows.slice(0, most)} rowKey={(row) => row.call} onOpen={onOpen} />
      {rows.length > most && (
        <Button onClick={() => setMost(most + ROWS * 5)}>{t.more(f.count(Math.min(rows.length - most, ROWS * 5)))}</Button>
      )}
    </>
  );
}

/** Where the sizes of all calls are known from, if that is the same: then it needs no column. */
function KnownFrom({ rows }: { rows: readonly RequestRow[] }) {
  const t = useText(text);
  const from = commonSource(rows);
  if (from === null) return null;
  return (
    <span title={t.knownHint[from]}>
      {t.columns.known}: {t.known[from]}.
    </span>
  );
}

/** Columns that say the same, or nothing, for every call are left out: there is little room. */
function columnsOf(rows: readonly RequestRow[], t: Words, f: Format, onOpen: (row: RequestRow) => void): Column<RequestRow>[] {
  const known: Column<RequestRow> = {
    name: "known",
    title: t.columns.known,
    cell: (row) => (
      <span className={styles.whole} title={t.knownHint[row.known_from]}>
        {t.known[row.known_from]}
      </span>
    ),
  };
  const changes: Column<RequestRow> = { name: "changes", title: t.columns.changes, cell: (row) => <Changes row={row} /> };
  return [
    {
      name: "call",
      title: t.columns.call,
      lead: true,
      cell: (row) =>
        row.span_id === null ? (
          f.count(row.call)
        ) : (
          <button type="button" className={styles.call} aria-label={t.openCall(f.count(row.call))} onClick={() => onOpen(row)}>
            {f.count(row.call)}
          </button>
        ),
    },
    { name: "time", title: t.columns.time, width: "6rem", cell: (row) => f.timeOfDay(row.at), wideOnly: true },
    { name: "model", title: t.columns.model, cell: (row) => <ModelName id={row.model} className={styles.whole} /> },
    ...(commonSource(rows) === null ? [known] : []),
    { name: "size", title: t.columns.size, end: true, cell: (row) => (row.known_from === "usage" ? "?" : f.count(row.characters)) },
    { name: "input", title: t.columns.input, end: true, cell: (row) => f.count(row.input_tokens) },
    { name: "cacheRead", title: t.columns.cacheRead, end: true, cell: (row) => f.count(row.cache_read_tokens) },
    { name: "cacheWrite", title: t.columns.cacheWrite, end: true, cell: (row) => f.count(row.cache_write_tokens) },
    ...(rows.some(hasChanges) ? [changes] : []),
  ];
}

/** The tools that were not there all the time. */
function CameAndWent({ tools }: { tools: readonly OfferedTool[] }) {
  const t = useText(text);
  const f = useFormat();
  const moved = tools.filter((tool) => !tool.initial || tool.went !== null);
  if (moved.length === 0) return null;
  const columns: Column<OfferedTool>[] = [
    { name: "name", title: t.toolName, lead: true, cell: (tool) => <Text line>{tool.name}</Text> },
    { name: "came", title: t.came, end: true, cell: (tool) => f.count(tool.came) },
    { name: "went", title: t.went, end: true, cell: (tool) => f.count(tool.went) },
    { name: "size", title: t.size, end: true, cell: (tool) => f.count(tool.characters) },
  ];
  return (
    <Section title={t.toolsTitle}>
      <Table label={t.toolsTitle} columns={columns} rows={moved} rowKey={(tool) => `${tool.name} ${tool.came}`} />
    </Section>
  );
}
