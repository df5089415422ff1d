/** A job: its chain as a graph, the chosen step, and everything else that is known of it. */
import { useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";

import { ProblemError } from "../../api/client";
import { keyOf, useGet } from "../../api/queries";
import type { JobDetail, RunList } from "../../api/shapes";
import { Empty, LinkButton, Loaded, Page, Section, Text, useSteadyError, visible } from "../../parts";
import { useText } from "../../text";
import { address, useParam } from "../../url";
import { isAway } from "./away";
import { ChainView } from "./chain-view";
import { estimatedCalls, firstToSee } from "./figures";
import { JobActions } from "./job-actions";
import { JobFacts } from "./job-facts";
import styles from "./runs.module.css";
import { JobMark, isOver } from "./statuses";
import { StepDetail } from "./step-detail";
import { text } from "./text";
import { Unavailable } from "./unavailable";

export function JobPage({ id }: { id: string }) {
  const t = useText(text);
  const path = `/jobs/${id}`;
  const known = useQueryClient().getQueryData<JobDetail>(keyOf(path));
  // A job that is over changes no more; but its server may, and then the page should not be old for ever.
  const every = known && isOver(known.status) ? 30_000 : 2000;
  const query = useGet<JobDetail>(path, {}, { every });
  const job = query.data;
  const error = useSteadyError(query);
  const title = t.jobNumber(Number(id));
  if (!job && isAway(error)) {
    return (
      <Page title={title}>
        <Unavailable error={error} />
      </Page>
    );
  }
  if (!job && error instanceof ProblemError && error.status < 500) {
    return (
      <Page title={title}>
        <Empty icon="runs" title={t.detail.noJob}>
          <LinkButton href="/runs">{t.detail.toList}</LinkButton>
        </Empty>
      </Page>
    );
  }
  return (
    <Page
      title={
        <span className={styles.heading}>
          {title}
          {job && (
            <span className="soft">
              <Text>{job.event_type}</Text>
            </span>
          )}
        </span>
      }
      windowTitle={job ? `${title} ${visible(job.event_type)}` : title}
      note={
        job && (
          <span className={styles.line}>
            <JobMark job={job} />
            <span>
              {t.store} {job.site_id}
            </span>
            {job.member_id !== null && (
              <span>
                {t.member} {job.member_id}
              </span>
            )}
            {job.rerun_of !== null ? <span>{t.rerun}</span> : job.is_forced && <span>{t.forced}</span>}
          </span>
        )
      }
      actions={job && <JobActions job={job} />}
    >
      <Loaded query={query} lines={10}>
        {(loaded) => <JobBody job={loaded} every={every} />}
      </Loaded>
    </Page>
  );
}

function JobBody({ job, every }: { job: JobDetail; every: number }) {
  const t = useText(text);
  const [wanted] = useParam("step");
  const calls = useGet<RunList>("/runs", { job: job.id, limit: 500 }, { every }).data;
  const estimated = useMemo(() => estimatedCalls(calls?.items ?? []), [calls]);
  const chosen = wanted ? job.steps.find((step) => step.name === wanted) : firstToSee(job.steps);
  const lanes = job.steps.filter((step) => step.after.length === 0).length;
  return (
    <>
      {job.error_message && job.status !== "skipped_duplicate" && (
        <p className={styles.error}>
          <Text>{job.error_message}</Text>
        </p>
      )}
      <Section
        title={t.graph.title}
        note={lanes > 1 ? t.graph.note : undefined}
        actions={
          <LinkButton small tone="quiet" href={address("/runs", { tab: "calls", job: job.id })}>
            {t.detail.allCalls}
          </LinkButton>
        }
      >
        {job.steps.length > 0 ? (
          <ChainView job={job.id} steps={job.steps} chosen={chosen?.name} estimated={estimated} />
        ) : (
          <p className="soft">{t.graph.empty}</p>
        )}
      </Section>
      {chosen ? (
        <StepDetail key={chosen.name} step={chosen} estimated={estimated} />
      ) : (
        wanted && <Empty title={t.stepPage.noStep} />
      )}
      <JobFacts job={job} />
    </>
  );
}
