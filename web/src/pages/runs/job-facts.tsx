/** The facts of a job except its chain, and related jobs. */
import { Link } from "wouter";

import { useGet } from "../../api/queries";
import type { JobDetail, JobList, JobRow } from "../../api/shapes";
import { useFormat } from "../../format";
import { Elapsed, Facts, Grid, JsonView, Section, Text, Time } from "../../parts";
import { useText } from "../../text";
import { duplicateOf } from "./figures";
import styles from "./runs.module.css";
import { isOver } from "./statuses";
import { text } from "./text";
import { TraceLink } from "./trace-link";

export function JobFacts({ job }: { job: JobDetail }) {
  const t = useText(text);
  const f = useFormat();
  const { repeats, duplicates } = useFollowers(job);
  const first = duplicateOf(job.error_message);
  return (
    <Grid min="24rem">
      <Section title={t.detail.about}>
        <Facts
          facts={[
            [t.event, <Text key="event">{job.event_type}</Text>],
            [t.store, job.site_id],
            [t.member, job.member_id ?? undefined],
            [t.chain, <Text key="chain" mono>{job.app_chain}</Text>],
            [t.detail.connector, <Text key="connector">{job.connector_type}</Text>],
            [t.detail.day, f.day(job.event_date)],
            [t.detail.created, <Time key="created" at={job.created_at} as="exact" />],
            [t.detail.waited, job.started_at ? f.between(job.created_at, job.started_at) : undefined],
            [t.took, job.started_at ? <Elapsed key="took" start={job.started_at} end={job.finished_at} /> : undefined],
            [t.detail.trace, <TraceLink key="trace" session={job.started_at ? job.session_key : null} open={!isOver(job.status)} />],
            [t.detail.schedule, job.schedule === null ? undefined : <Text key="schedule">{job.schedule}</Text>],
            [t.detail.rerunOf, job.rerun_of === null ? undefined : <JobLinks key="of" ids={[job.rerun_of]} />],
            [t.detail.duplicateOf, first === null ? undefined : <JobLinks key="first" ids={[first]} />],
            [t.detail.repeatedBy, repeats.length > 0 ? <JobLinks key="by" ids={repeats} /> : undefined],
            [t.detail.duplicates, duplicates.length > 0 ? <JobLinks key="same" ids={duplicates} /> : undefined],
          ]}
        />
      </Section>
      <Section title={t.detail.payload}>
        {job.payload ? <JsonView value={job.payload} /> : <p className="soft">{t.detail.noPayload}</p>}
      </Section>
    </Grid>
  );
}

function JobLinks({ ids }: { ids: number[] }) {
  const t = useText(text);
  return (
    <span className={styles.line}>
      {ids.map((id) => (
        <Link key={id} href={`/runs/jobs/${id}`}>
          {t.jobNumber(id)}
        </Link>
      ))}
    </span>
  );
}

/** Later jobs of the same event that refer to this one: re-runs and duplicates. */
function useFollowers(job: JobRow): { repeats: number[]; duplicates: number[] } {
  const params = {
    event: job.event_type,
    site: job.site_id,
    member: job.member_id,
    since: job.created_at,
    limit: 200,
  };
  const later = useGet<JobList>("/jobs", params, { every: 10_000 }).data?.items ?? [];
  return {
    repeats: later.filter((other) => other.rerun_of === job.id).map((other) => other.id),
    duplicates: later.filter((other) => duplicateOf(other.error_message) === job.id).map((other) => other.id),
  };
}
