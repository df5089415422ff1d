/** The overview: what it costs, what needs the user, what works now, when and where agents worked. */
import { useGet } from "../../api/queries";
import type { Overview, SessionRow } from "../../api/shapes";
import { Loaded, Page, useMedia } from "../../parts";
import { NothingRecorded } from "../../shell/demo";
import { useText } from "../../text";
import { isOfTeam } from "../team/now";
import { LimitsCard, useLimits } from "../usage/limits-card";
import { useRefetchOnLive } from "../usage/throttle";
import { Activity } from "./activity";
import { FailingTools, useFailingTools } from "./failing-tools";
import { Needs, Working } from "./needs";
import styles from "./overview.module.css";
import { Periods } from "./periods";
import { ExportState, RunHalf, isUsed } from "./run-half";
import { TopProjects } from "./projects";
import { Spending } from "./spending";
import { text } from "./text";
import { WhoCard } from "./who-card";
import { useCurrent } from "./now";

/** The polling interval for data that is not in the live stream, such as budgets and breakers. */
const EVERY = 10_000;
const AT_MOST_EVERY = 2000;
/** Three columns: below the three periods, and nearly all of it on one screen. */
const WIDE = "(min-width: 105rem)";
/** Sessions of a team wait for their users, not for the one who looks. */
const NONE: SessionRow[] = [];

export default function OverviewPage() {
  const t = useText(text);
  const query = useGet<Overview>("/overview", {}, { every: EVERY });
  useRefetchOnLive(query.refetch, AT_MOST_EVERY);
  // Requested beside the answer, and shown with it.
  useFailingTools();
  useLimits();
  return (
    <Page title={t.title}>
      <Loaded query={query} lines={14}>
        {(overview) => <Parts overview={overview} />}
      </Loaded>
    </Page>
  );
}

function Parts({ overview }: { overview: Overview }) {
  const { recording, run } = overview;
  const nothing = recording.lines.lines === 0 && overview.month.requests === 0;
  // Each is a card where it is used, and a line where it is not.
  const cards = isUsed(run) && overview.exports.destinations.length > 0;
  return (
    <>
      {nothing ? <NothingRecorded /> : <Figures overview={overview} />}
      <div className={cards ? `${styles.pair} ${styles.cards}` : styles.quiet}>
        <RunHalf run={run} />
        <ExportState exports={overview.exports} />
      </div>
    </>
  );
}

function Figures({ overview }: { overview: Overview }) {
  const now = useCurrent(overview);
  const team = isOfTeam(now);
  const wide = useMedia(WIDE);
  const needs = <Needs attention={overview.attention} waiting={team ? NONE : now.waiting} failed={now.failed} />;
  const working = (
    <>
      {team ? <WhoCard now={now} /> : <Working rows={now.working} />}
      <LimitsCard quiet />
    </>
  );
  const spent = (
    <>
      <Spending overview={overview} />
      <FailingTools />
    </>
  );
  const projects = <TopProjects figures={overview.figures} />;
  const activity = <Activity days={overview.figures.activity} />;
  if (wide) {
    return (
      <>
        <Periods figures={overview.figures} />
        <div className={styles.three}>
          <div className={styles.stack}>
            {needs}
            {activity}
          </div>
          <div className={styles.stack}>
            {working}
            {projects}
          </div>
          <div className={styles.stack}>{spent}</div>
        </div>
      </>
    );
  }
  return (
    <>
      <Periods figures={overview.figures} />
      <div className={styles.pair}>
        {needs}
        <div className={styles.stack}>{working}</div>
      </div>
      <div className={styles.pair}>
        <div className={styles.stack}>{spent}</div>
        <div className={styles.stack}>
          {projects}
          {activity}
        </div>
      </div>
    </>
  );
}
