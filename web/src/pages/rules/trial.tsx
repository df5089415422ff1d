/** What a rule would have done: the events that fire, and the reasons of the others. */
import { Link } from "wouter";

import { useGet } from "../../api/queries";
import type { RuleTrial, TrialReason, TriedEvent } from "../../api/shapes";
import { useFormat } from "../../format";
import type { Column } from "../../parts";
import { Drawer, Loaded, Table, Text, Time } from "../../parts";
import { useText } from "../../text";
import { Money, Unknown } from "./cost";
import { factsText } from "./facts-text";
import { useReason } from "./reason";
import { useRemark } from "./remark";
import styles from "./rules.module.css";
import { text } from "./text";

export const PERIOD = "7d";
const SHOWN = 20;

export function TrialDrawer({ name, onClose }: { name: string; onClose: () => void }) {
  const t = useText(text);
  const query = useGet<RuleTrial>(`/rules/${encodeURIComponent(name)}/trial`, { since: PERIOD });
  return (
    <Drawer open onClose={onClose} title={<Text>{t.tryTitle(name)}</Text>}>
      <Loaded query={query}>{(trial) => <TrialReport trial={trial} />}</Loaded>
    </Drawer>
  );
}

export function TrialReport({ trial }: { trial: RuleTrial }) {
  const t = useText(text);
  const f = useFormat();
  const remark = useRemark();
  const fired = trial.examples.filter((each) => each.fires).slice(0, SHOWN);
  return (
    <div className={styles.trial}>
      <p role="status">
        <strong>{t.wouldFire(f.count(trial.fired), f.count(trial.events), f.count(trial.messages))}</strong>{" "}
        <span className="faint">{t.trialSince(f.clock(trial.since))}</span>
      </p>
      {trial.chains.length > 0 && (
        <p>
          {t.trialCost(f.count(trial.tokens))} <Money cost={trial.cost} />
        </p>
      )}
      <Unknown cost={trial.cost} />
      {fired.length > 0 && <Fired rows={fired} />}
      {trial.reasons.length > 0 && <Reasons rows={trial.reasons} />}
      {trial.cut && <p className="soft">{t.cut}</p>}
      {trial.remarks.map((each) => (
        <p key={each.code} className="faint">
          {remark(each)}
        </p>
      ))}
    </div>
  );
}

function Fired({ rows }: { rows: TriedEvent[] }) {
  const t = useText(text);
  const columns: Column<TriedEvent>[] = [
    { name: "about", title: t.about, lead: true, cell: (row) => <About row={row} /> },
    { name: "facts", title: t.facts, cell: (row) => <Text>{factsText(row.facts)}</Text> },
    { name: "at", title: t.at, width: "8rem", cell: (row) => <Time at={row.at} as="clock" /> },
  ];
  return <Table label={t.wouldFireList} columns={columns} rows={rows} rowKey={(row) => `${row.session} ${row.at} ${factsText(row.facts)}`} />;
}

function About({ row }: { row: TriedEvent }) {
  const says = row.title ?? row.session_id ?? factsText(row.facts);
  return row.session ? (
    <Link href={`/sessions/${row.session}`}>
      <Text>{says}</Text>
    </Link>
  ) : (
    <Text>{says}</Text>
  );
}

function Reasons({ rows }: { rows: TrialReason[] }) {
  const t = useText(text);
  const f = useFormat();
  const reason = useReason();
  const columns: Column<TrialReason>[] = [
    { name: "reason", title: t.wouldNotFire, lead: true, cell: (row) => <Text>{reason(row)}</Text> },
    { name: "events", title: t.count, end: true, width: "6rem", cell: (row) => f.count(row.events) },
  ];
  return <Table label={t.reasons} columns={columns} rows={rows.slice(0, SHOWN)} rowKey={(row) => row.reason} />;
}
