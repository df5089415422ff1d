/** All calls to applications, the newest first. */
import { Link, useLocation } from "wouter";

import { usePages } from "../../api/queries";
import type { Catalog, RunList, RunRow } from "../../api/shapes";
import { useFormat } from "../../format";
import type { Column } from "../../parts";
import { Table, Text } from "../../parts";
import { useText, useTitle } from "../../text";
import { address } from "../../url";
import { ErrorLine, ErrorOnCard, When } from "./cells";
import { FilterBar } from "./filter-bar";
import { roughly } from "./figures";
import { Listed, TriggerHint } from "./listed";
import styles from "./runs.module.css";
import { CALL_STATUSES, CallMark } from "./statuses";
import { text } from "./text";
import { isFiltered, useFilters } from "./use-filters";

export function CallList({ catalog }: { catalog: Catalog | undefined }) {
  const t = useText(text);
  const filters = useFilters(CALL_STATUSES, "job");
  const pages = usePages<RunRow, RunList>("/runs", { ...filters }, { every: 2000, keep: true });
  return (
    <Listed
      pages={pages}
      bar={<FilterBar filters={filters} statuses={CALL_STATUSES} catalog={catalog} />}
      filtered={isFiltered(filters)}
      none={<TriggerHint title={t.noCalls} how={t.noCallsHow} chat />}
    >
      <Rows rows={pages.items} catalog={catalog} />
    </Listed>
  );
}

function Rows({ rows, catalog }: { rows: RunRow[]; catalog: Catalog | undefined }) {
  const t = useText(text);
  const titleOf = useTitle();
  const f = useFormat();
  const [, navigate] = useLocation();
  const titles = new Map(catalog?.apps.map((app) => [app.app_type, titleOf(app)]));
  const columns: Column<RunRow>[] = [
    {
      name: "call",
      title: t.call,
      lead: true,
      cell: (row) => (
        <span className={styles.lead}>
          <Link href={`/runs/calls/${row.id}`} aria-label={t.callNumber(row.id)} className={styles.number}>
            {row.id}
          </Link>
          <Text>{titles.get(row.app_type) ?? row.app_type}</Text>
          <span className="faint">
            <Text>{row.step ?? row.app_type}</Text>
          </span>
          <ErrorOnCard>{row.error_message}</ErrorOnCard>
        </span>
      ),
    },
    { name: "status", title: t.status, width: "7rem", cell: (row) => <CallMark status={row.status} /> },
    { name: "job", title: t.job, cell: (row) => <For row={row} /> },
    { name: "store", title: t.store, end: true, cell: (row) => row.site_id },
    { name: "member", title: t.member, end: true, cell: (row) => row.member_id ?? <span className="faint">–</span> },
    { name: "when", title: t.when, cell: (row) => <When at={row.created_at} /> },
    { name: "took", title: t.took, end: true, cell: (row) => f.duration(row.latency_ms) },
    { name: "tokens", title: t.tokens, end: true, cell: (row) => <CallTokens row={row} /> },
    { name: "error", title: t.error, width: "35%", wideOnly: true, cell: (row) => <ErrorLine>{row.error_message}</ErrorLine> },
  ];
  return (
    <Table
      label={t.calls}
      columns={columns}
      rows={rows}
      rowKey={(row) => row.id}
      onOpen={(row) => navigate(`/runs/calls/${row.id}`)}
    />
  );
}

/** The purpose of the call. */
function For({ row }: { row: RunRow }) {
  const t = useText(text);
  if (row.trigger_job_id === null) return <span className={`soft ${styles.unbroken}`}>{row.conversation_id === null ? "–" : t.chat}</span>;
  return <Link href={address(`/runs/jobs/${row.trigger_job_id}`, { step: row.step })}>{row.trigger_job_id}</Link>;
}

function CallTokens({ row }: { row: RunRow }) {
  const t = useText(text);
  const f = useFormat();
  if (row.tokens_used === null) return <span className="faint">–</span>;
  return (
    <span title={row.tokens_estimated ? t.estimated : undefined}>
      {roughly(f.count(row.tokens_used), row.tokens_estimated)}
    </span>
  );
}
