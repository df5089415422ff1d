/** The run half: remaining budget, open breakers, jobs. */
import { Link } from "wouter";

import type { BreakerRow, Exports, RunState } from "../../api/shapes";
import { useFormat } from "../../format";
import { BudgetMeter, DestinationMark, Section, StateMark, Text, Time, visible } from "../../parts";
import { useTypeable } from "../../program";
import { useText, useTitle } from "../../text";
import styles from "./run-half.module.css";
import { text } from "./text";

export function RunHalf({ run }: { run: RunState }) {
  const t = useText(text);
  if (!isUsed(run)) return <Away run={run} />;
  return (
    <Section title={t.run} actions={<Link href="/guards">{t.guards}</Link>}>
      <div className={styles.parts}>
        <Jobs run={run} />
        {run.budget && !run.budget.allowed && (
          <p className={styles.refused}>
            {t.refused} <Text>{run.budget.reason}</Text>
          </p>
        )}
        {run.budget && (
          <>
            <BudgetMeter label={t.budgetDay(run.budget.day.period, run.budget.timezone)} period={run.budget.day} legend />
            <BudgetMeter label={t.budgetMonth(run.budget.month.period, run.budget.timezone)} period={run.budget.month} legend />
          </>
        )}
        {run.missing.length > 0 && <Missing names={run.missing} />}
        <Breakers breakers={run.breakers} />
      </div>
    </Section>
  );
}

/** Whether applications can be run here, or have been: many only record. */
export function isUsed({ available, missing, budget, ...jobs }: RunState): boolean {
  const spent = budget === null ? 0 : budget.month.used + budget.month.failed + budget.month.reserved;
  return available && (missing.length === 0 || spent + jobs.running_jobs + jobs.waiting_jobs + jobs.failed_jobs_today > 0);
}

/** For those who only record this is one line, without what to set: the page of runs says that. */
function Away({ run }: { run: RunState }) {
  const t = useText(text);
  const typeable = useTypeable();
  return (
    <p className={styles.quiet}>
      {run.used && run.reason ? <Text>{typeable(run.reason)}</Text> : t.runAway} <Link href="/runs">{t.runs}</Link>
    </p>
  );
}

function Missing({ names }: { names: string[] }) {
  const t = useText(text);
  const f = useFormat();
  const [first = "", ...others] = names;
  return (
    <span className={styles.quiet} title={visible(names.join("\n"))}>
      {t.missing} <strong>{visible(first)}</strong> {others.length > 0 && t.andOthers(f.count(others.length))}{" "}
      <Link href="/settings">{t.settings}</Link>
    </span>
  );
}

function Jobs({ run }: { run: RunState }) {
  const t = useText(text);
  const f = useFormat();
  return (
    <p className={styles.jobs}>
      <Link href="/runs?status=running">{t.runningJobs(f.count(run.running_jobs))}</Link>
      <Link href="/runs?status=pending">{t.waitingJobs(f.count(run.waiting_jobs))}</Link>
      <Link href="/runs?status=failed" className={run.failed_jobs_today > 0 ? styles.bad : undefined}>
        {t.failedJobs(f.count(run.failed_jobs_today))}
      </Link>
    </p>
  );
}

function Breakers({ breakers }: { breakers: BreakerRow[] }) {
  const t = useText(text);
  const titleOf = useTitle();
  const f = useFormat();
  const closed = breakers.filter((breaker) => breaker.state === "closed");
  const others = breakers.filter((breaker) => breaker.state !== "closed");
  if (breakers.length === 0) return null;
  return (
    <div className={styles.breakers}>
      {others.map((breaker) => (
        <div key={breaker.app}>
          <StateMark
            state={breaker.state}
            label={breaker.held ? t.breakers.held : t.breakers[breaker.state]}
            look={breaker.state === "open" ? "failed" : undefined}
          />
          <Text line>{`${breaker.app} ${titleOf(breaker)}`}</Text>
          <span className="faint">
            <Time at={breaker.changed_at} />
          </span>
        </div>
      ))}
      <div>
        <StateMark state="closed" label={(others.length === 0 ? t.allClosed : t.someClosed)(f.count(closed.length))} />
      </div>
    </div>
  );
}

export function ExportState({ exports }: { exports: Exports }) {
  const t = useText(text);
  const f = useFormat();
  if (exports.destinations.length === 0) {
    return (
      <p className={styles.quiet}>
        {t.noExports} <Link href="/exports">{t.exports}</Link>
      </p>
    );
  }
  return (
    <Section title={t.exports} actions={<Link href="/exports">{t.details}</Link>}>
      <ul role="list" className={styles.destinations}>
        {exports.destinations.map((destination) => (
          <li key={destination.name}>
            <DestinationMark state={destination.state} />
            <Text line>{destination.name}</Text>
            <span>{t.sent(f.count(destination.acknowledged), f.count(destination.queued + destination.sending))}</span>
            {destination.refused > 0 && <span className={styles.bad}>{t.notSent(f.count(destination.refused))}</span>}
            {destination.unknown > 0 && <span className={styles.bad}>{t.notKnown(f.count(destination.unknown))}</span>}
            <span className="faint">
              <Time at={destination.last_success_at} />
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}
