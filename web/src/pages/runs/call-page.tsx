/** A call to an application, whole. */
import { Link } from "wouter";

import { ProblemError } from "../../api/client";
import { useGet } from "../../api/queries";
import type { Catalog, RunDetail } from "../../api/shapes";
import { useFormat } from "../../format";
import { Copy, Empty, Facts, Grid, LinkButton, Loaded, Page, Section, Text, Time, useSteadyError } from "../../parts";
import { useText, useTitle } from "../../text";
import { address } from "../../url";
import { isAway } from "./away";
import { roughly } from "./figures";
import { MessageView } from "./message-view";
import styles from "./runs.module.css";
import { CallMark, isOver } from "./statuses";
import { text } from "./text";
import { TraceLink } from "./trace-link";
import { Unavailable } from "./unavailable";

export function CallPage({ id }: { id: string }) {
  const t = useText(text);
  const titleOf = useTitle();
  const query = useGet<RunDetail>(`/runs/${id}`, {}, { every: 2000 });
  const catalog = useGet<Catalog>("/catalog", {}, { fresh: 60_000 }).data;
  const call = query.data;
  const error = useSteadyError(query);
  const title = t.callNumber(Number(id));
  const known = catalog?.apps.find((each) => each.app_type === call?.app_type);
  const app = known ? titleOf(known) : call?.app_type;
  if (!call && isAway(error)) {
    return (
      <Page title={title}>
        <Unavailable error={error} />
      </Page>
    );
  }
  if (!call && error instanceof ProblemError && error.status < 500) {
    return (
      <Page title={title}>
        <Empty icon="runs" title={t.detail.noCall}>
          <LinkButton href="/runs?tab=calls">{t.detail.toList}</LinkButton>
        </Empty>
      </Page>
    );
  }
  return (
    <Page
      title={
        <span className={styles.heading}>
          {title}
          {app && (
            <span className="soft">
              <Text>{app}</Text>
            </span>
          )}
        </span>
      }
      windowTitle={app ? `${title} ${app}` : title}
      note={call && <CallMark status={call.status} />}
    >
      <Loaded query={query} lines={10}>
        {(loaded) => <CallBody call={loaded} />}
      </Loaded>
    </Page>
  );
}

function CallBody({ call }: { call: RunDetail }) {
  const t = useText(text);
  return (
    <>
      {call.error_message && (
        <p className={styles.error}>
          <Text>{call.error_message}</Text>
        </p>
      )}
      <Grid min="22rem">
        <Section title={t.detail.about}>
          <About call={call} />
        </Section>
        <Section title={t.call}>
          <Figures call={call} />
        </Section>
      </Grid>
      <Section>
        <div className={styles.messages}>
          <MessageView
            title={t.detail.prompt}
            text={call.request_prompt}
            none={t.detail.noPrompt}
            copyHint={t.detail.copyPrompt}
          />
          <MessageView
            title={t.detail.answer}
            text={call.response_text}
            none={isOver(call.status) ? t.detail.noAnswer : t.detail.noAnswerYet}
            copyHint={t.detail.copyAnswer}
            markdown={call.conversation_id !== null}
          />
        </div>
      </Section>
    </>
  );
}

function About({ call }: { call: RunDetail }) {
  const t = useText(text);
  const job = call.trigger_job_id;
  return (
    <Facts
      facts={[
        [t.app, <Text key="app" mono>{call.app_type}</Text>],
        [t.detail.trigger, t.detail.triggers[call.trigger_type] ?? call.trigger_type],
        [t.job, job === null ? undefined : <Link key="job" href={`/runs/jobs/${job}`}>{t.jobNumber(job)}</Link>],
        [
          t.step,
          call.step === null || job === null ? undefined : (
            <Link key="step" href={address(`/runs/jobs/${job}`, { step: call.step })}>
              <Text mono>{call.step}</Text>
            </Link>
          ),
        ],
        [t.store, call.site_id],
        [t.member, call.member_id ?? undefined],
        [t.detail.user, call.user_id === null ? undefined : <Text key="user">{call.user_id}</Text>],
        [t.detail.conversation, call.conversation_id ?? undefined],
        [t.detail.trace, <TraceLink key="trace" session={call.session_key} open={!isOver(call.status)} />],
      ]}
    />
  );
}

function Figures({ call }: { call: RunDetail }) {
  const t = useText(text);
  const f = useFormat();
  return (
    <Facts
      facts={[
        [t.detail.started, <Time key="started" at={call.created_at} as="exact" />],
        [t.detail.finished, call.finished_at === null ? undefined : <Time key="ended" at={call.finished_at} as="exact" />],
        [t.detail.latency, f.duration(call.latency_ms)],
        [
          t.tokens,
          <span key="tokens" title={call.tokens_estimated ? t.estimated : undefined}>
            {roughly(f.count(call.tokens_used), call.tokens_estimated)}
          </span>,
        ],
        [t.detail.input, f.count(call.input_tokens)],
        [t.detail.output, f.count(call.output_tokens)],
        [t.detail.reserved, `~${f.count(call.tokens_reserved)}`],
        [t.attempts, f.count(call.attempts)],
        [t.detail.model, <Text key="model">{call.model}</Text>],
        [
          t.detail.request,
          call.request_id === null ? undefined : (
            <span key="request" className={styles.request}>
              <Text mono>{call.request_id}</Text>
              <Copy text={call.request_id} />
            </span>
          ),
        ],
      ]}
    />
  );
}
