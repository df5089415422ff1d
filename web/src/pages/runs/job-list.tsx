/** All jobs, the newest first. */
import { Link, useLocation } from "wouter";

import { usePages } from "../../api/queries";
import type { Catalog, JobList as JobListShape, JobRow } from "../../api/shapes";
import type { Column } from "../../parts";
import { Badge, Elapsed, Table, Text } from "../../parts";
import { useText } from "../../text";
import { Chain, ErrorLine, ErrorOnCard, When } from "./cells";
import { FilterBar } from "./filter-bar";
import { Listed, TriggerHint } from "./listed";
import styles from "./runs.module.css";
import { JOB_STATUSES, JobMark } from "./statuses";
import { text } from "./text";
import { isFiltered, useFilters } from "./use-filters";

export function JobList({ catalog }: { catalog: Catalog | undefined }) {
  const t = useText(text);
  const filters = useFilters(JOB_STATUSES, "event");
  const pages = usePages<JobRow, JobListShape>("/jobs", { ...filters }, { every: 2000, keep: true });
  return (
    <Listed
      pages={pages}
      bar={<FilterBar filters={filters} statuses={JOB_STATUSES} catalog={catalog} events />}
      filtered={isFiltered(filters)}
      none={<TriggerHint title={t.noJobs} how={t.noJobsHow} />}
    >
      <Rows rows={pages.items} />
    </Listed>
  );
}

function Rows({ rows }: { rows: JobRow[] }) {
  const t = useText(text);
  const [, navigate] = useLocation();
  const columns: Column<JobRow>[] = [
    {
      name: "job",
      title: t.job,
      lead: true,
      cell: (row) => (
        <span className={styles.lead}>
          <Link href={`/runs/jobs/${row.id}`} aria-label={t.jobNumber(row.id)} className={styles.number}>
            {row.id}
          </Link>
          <Text>{row.event_type}</Text>
          {row.rerun_of !== null ? <Badge>{t.rerun}</Badge> : row.is_forced && <Badge>{t.forced}</Badge>}
          {row.schedule !== null && <Badge>{t.scheduled}</Badge>}
          <ErrorOnCard>{row.error_message}</ErrorOnCard>
        </span>
      ),
    },
    { name: "status", title: t.status, width: "7rem", cell: (row) => <JobMark job={row} /> },
    { name: "store", title: t.store, end: true, cell: (row) => row.site_id },
    { name: "member", title: t.member, end: true, cell: (row) => row.member_id ?? <span className="faint">–</span> },
    { name: "chain", title: t.chain, cell: (row) => <Chain>{row.app_chain}</Chain> },
    { name: "when", title: t.when, cell: (row) => <When at={row.created_at} /> },
    { name: "took", title: t.took, end: true, cell: (row) => <Elapsed start={row.started_at} end={row.finished_at} /> },
    { name: "error", title: t.error, width: "40%", wideOnly: true, cell: (row) => <ErrorLine>{row.error_message}</ErrorLine> },
  ];
  return (
    <Table
      label={t.jobs}
      columns={columns}
      rows={rows}
      rowKey={(row) => row.id}
      onOpen={(row) => navigate(`/runs/jobs/${row.id}`)}
    />
  );
}
