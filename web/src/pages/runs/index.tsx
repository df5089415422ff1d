/** Jobs and calls of the applications: lists of both, a job with its chain, a call whole. */
import { useGet } from "../../api/queries";
import type { Catalog } from "../../api/shapes";
import { Page, Tabs, panelProps } from "../../parts";
import { useText } from "../../text";
import { useChoice, useParams, useRouteParams } from "../../url";
import { CallList } from "./call-list";
import { CallPage } from "./call-page";
import { JobList } from "./job-list";
import { JobPage } from "./job-page";
import { StartEvent } from "./start-event";
import { text } from "./text";
import { MissingSettings } from "./unavailable";

const TABS = ["jobs", "calls"] as const;

export default function Runs() {
  const { job, call } = useRouteParams<{ job?: string; call?: string }>();
  if (job) return <JobPage key={job} id={job} />;
  if (call) return <CallPage key={call} id={call} />;
  return <Lists />;
}

function Lists() {
  const t = useText(text);
  const [tab] = useChoice("tab", TABS);
  const params = useParams();
  const catalog = useGet<Catalog>("/catalog", {}, { fresh: 60_000 }).data;
  const open = (next: (typeof TABS)[number]) =>
    // What only one of the lists can be filtered by does not go with us.
    params.change({ tab: next === "jobs" ? null : next, status: null, event: null, job: null }, { push: true });
  return (
    <Page title={t.title} note={t.note} actions={<StartEvent catalog={catalog} />}>
      {catalog && <MissingSettings names={catalog.missing} />}
      <Tabs id="runs" label={t.tabs} choices={TABS.map((value) => ({ value, label: t[value] }))} value={tab} onChange={open} />
      <div {...panelProps("runs", tab)}>
        {tab === "jobs" ? <JobList catalog={catalog} /> : <CallList catalog={catalog} />}
      </div>
    </Page>
  );
}
