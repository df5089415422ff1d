/** The header of a session: project, totals, forks and actions. */
import type { ReactNode } from "react";
import { Link } from "wouter";

import type { SessionDetail, SessionRef } from "../../api/shapes";
import { useFormat } from "../../format";
import { modelName } from "../../models";
import { Copy, Cost, Elapsed, PathText, StateMark, Text, Time, visible } from "../../parts";
import { useText } from "../../text";
import { Beside } from "./annotations/beside";
import { UsageCheckFigure } from "./check/usage-check";
import { CompareLink } from "./compare-link";
import { CopyLink } from "./copy-link";
import styles from "./header.module.css";
import { NeighbourLinks } from "./neighbours";
import { OutcomesButton } from "./outcomes/outcomes";
import { text as outcomeText } from "./outcomes/text";
import { CopyResume } from "./resume/copy-resume";
import { RulesButton } from "./rules/rules";
import { ShareButton } from "./share/share";
import { text } from "./text";

export function Facts({ session }: { session: SessionDetail }) {
  return (
    <div className={styles.facts}>
      <div className={styles.top}>
        <Places session={session} />
        <Beside session={session} />
      </div>
      <Figures session={session} />
      <Family session={session} />
    </div>
  );
}

function Places({ session }: { session: SessionDetail }) {
  const t = useText(text);
  const others = session.models.filter((model) => model !== session.model);
  return (
    <p className={styles.places}>
      <StateMark state={session.state} />
      <span title={session.version === null ? undefined : visible(session.version)}>
        <Text>{session.agent}</Text>
      </span>
      {session.project && (
        <span className={styles.project}>
          <PathText>{session.project}</PathText>
        </span>
      )}
      {session.branch && <Text mono>{session.branch}</Text>}
      {session.model && (
        <span title={session.models.map(visible).join("\n")}>
          <Text>{modelName(session.model)}</Text>
          {others.length > 0 && <span className="faint"> {t.moreModels(others.length)}</span>}
        </span>
      )}
      <Time at={session.started_at} as="clock" />
      {(session.machine ?? session.person) !== null && <Text>{t.recorded(session.machine, session.person)}</Text>}
    </p>
  );
}

function Figures({ session }: { session: SessionDetail }) {
  const t = useText(text);
  const f = useFormat();
  const { bill } = session;
  const input = bill.input_tokens + bill.cache_read_tokens + bill.cache_write_tokens;
  return (
    <dl className={styles.figures}>
      <Figure name={t.facts.duration}>
        <Elapsed start={session.started_at} end={session.state === "working" ? null : session.last_at} />
      </Figure>
      <Figure name={t.facts.turns(session.turns)}>{f.count(session.turns)}</Figure>
      <Figure name={t.facts.steps(session.steps)} minor>{f.count(session.steps)}</Figure>
      <Figure name={t.facts.tools(session.tools)}>{f.count(session.tools)}</Figure>
      <Figure name={t.facts.errors(session.errors)} failed={session.errors > 0}>
        {f.count(session.errors)}
      </Figure>
      <Figure name={t.facts.input} title={f.count(input)}>
        {f.tokens(input)}
      </Figure>
      <Figure name={t.facts.cached} minor title={f.count(bill.cache_read_tokens)}>
        {f.tokens(bill.cache_read_tokens)} <span className="faint">{f.percent(bill.cache_read_tokens, input)}</span>
      </Figure>
      <Figure name={t.facts.output} title={f.count(bill.output_tokens)}>
        {f.tokens(bill.output_tokens)}
      </Figure>
      <Figure name={t.facts.cost}>
        <Cost bill={bill} />
      </Figure>
      <OutcomeFigures session={session} />
      <UsageCheckFigure check={session.check} />
    </dl>
  );
}

/** Lines and commits, once the session is examined. */
function OutcomeFigures({ session }: { session: SessionDetail }) {
  const t = useText(outcomeText);
  const f = useFormat();
  const { outcomes } = session;
  if (!outcomes) return null;
  const number = (lines: number | null) => (lines === null ? "?" : f.count(lines));
  return (
    <>
      {outcomes.files > 0 && (
        <Figure name={t.lines} minor>
          +{number(outcomes.added)} −{number(outcomes.removed)}
        </Figure>
      )}
      {outcomes.commits > 0 && <Figure name={t.commits(outcomes.commits)} minor>{f.count(outcomes.commits)}</Figure>}
    </>
  );
}

interface FigureProps {
  name: string;
  title?: string;
  failed?: boolean;
  /** Hidden on narrow screens. */
  minor?: boolean;
  children: ReactNode;
}

function Figure({ name, title, failed, minor, children }: FigureProps) {
  return (
    <div title={title} data-failed={failed || undefined} data-minor={minor || undefined}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** The sessions and the job that this one belongs to. */
function Family({ session }: { session: SessionDetail }) {
  const t = useText(text);
  const { parent_session: parent, forks, job_id: job } = session;
  if (!parent && forks.length === 0 && job === null) return null;
  return (
    <p className={styles.family}>
      {job !== null && <Link href={`/runs/jobs/${job}`}>{t.job(String(job))}</Link>}
      {parent && (
        <span>
          <span className="faint">{t.forkOf} </span>
          <Relative session={parent} />
        </span>
      )}
      {forks.length > 0 && (
        <span>
          <span className="faint">{t.forks} </span>
          {forks.map((fork) => (
            <Relative key={fork.key} session={fork} />
          ))}
        </span>
      )}
    </p>
  );
}

function Relative({ session }: { session: SessionRef }) {
  return (
    <Link href={`/sessions/${session.key}`} className={styles.relative}>
      <Text>{session.title ?? session.session_id}</Text>
    </Link>
  );
}

export function Actions({ session }: { session: SessionDetail }) {
  const t = useText(text);
  return (
    <div className={styles.actions}>
      <NeighbourLinks session={session} />
      <span className={styles.wideOnly}>
        <Copy text={session.session_id} hint={t.copyId} of="hash" />
      </span>
      {session.resume && (
        <span className={styles.wideOnly}>
          <CopyResume resume={session.resume} />
        </span>
      )}
      <span className={styles.wideOnly}>
        <CopyLink hint={t.copyLink} session={session.key} />
      </span>
      <OutcomesButton session={session} />
      <RulesButton session={session} />
      <CompareLink session={session.key} />
      <ShareButton session={session} />
    </div>
  );
}
