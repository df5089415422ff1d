/** The overview: current sessions, cost, and the state of recording and guards. */
import { useGet } from "../../api/queries";
import type { Overview } from "../../api/shapes";
import { Grid, Loaded, Page } from "../../parts";
import { NothingRecorded } from "../../shell/demo";
import { useText } from "../../text";
import { LimitsCard } from "../usage/limits-card";
import { useRefetchOnLive } from "../usage/throttle";
import { Recording } from "./recording";
import { ExportState, RunHalf, isUsed } from "./run-half";
import { Running } from "./running";
import { Spending } from "./spending";
import styles from "./overview.module.css";
import { text } from "./text";

/** The polling interval for data that is not in the live stream, such as budgets and breakers. */
const EVERY = 10_000;
const AT_MOST_EVERY = 2000;

export default function OverviewPage() {
  const t = useText(text);
  const query = useGet<Overview>("/overview", {}, { every: EVERY });
  useRefetchOnLive(query.refetch, AT_MOST_EVERY);
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
  return (
    <>
      {nothing ? (
        <NothingRecorded />
      ) : (
        <>
          <Running overview={overview} />
          <Spending overview={overview} />
          <LimitsCard quiet />
        </>
      )}
      <Grid min="26rem">
        {isUsed(run) && <RunHalf run={run} />}
        <Recording recording={recording} />
      </Grid>
      <div className={styles.quiet}>
        {!isUsed(run) && <RunHalf run={run} />}
        <ExportState exports={overview.exports} />
      </div>
    </>
  );
}
