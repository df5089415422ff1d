/** Budgets with their reservations, breakers and rate limits. */
import { Link } from "wouter";

import { useGet } from "../../api/queries";
import type { Guards as GuardsShape, LimitRow, RunRow } from "../../api/shapes";
import { useFormat } from "../../format";
import type { Column } from "../../parts";
import { BudgetMeter, Grid, Loaded, Meter, Page, Section, Table, Text, Time, useSteadyError } from "../../parts";
import { useText } from "../../text";
import { Away, isAway } from "../runs/away";
import { Breakers } from "./breakers";
import { text } from "./text";

export default function Guards() {
  const t = useText(text);
  const found = useGet<GuardsShape>("/guards", {}, { every: 2000 });
  const error = useSteadyError(found);
  if (found.data === undefined && isAway(error)) {
    return (
      <Page title={t.title}>
        <Away error={error} />
      </Page>
    );
  }
  return (
    <Page title={t.title} note={t.note}>
      <Loaded query={found} lines={10}>
        {(guards) => (
          <>
            <Budgets guards={guards} />
            <Breakers rows={guards.breakers} />
            <Limits rows={guards.limits} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Budgets({ guards }: { guards: GuardsShape }) {
  const t = useText(text);
  const { budget, reservations } = guards;
  return (
    <Grid min="24rem">
      <Section title={t.budget} note={budget.allowed ? t.zone(budget.timezone) : t.refusing}>
        <BudgetMeter label={t.day(budget.day.period)} period={budget.day} legend />
        <BudgetMeter label={t.month(budget.month.period)} period={budget.month} legend />
      </Section>
      <Section title={t.reservations} note={t.reservationsNote}>
        {reservations.length > 0 ? <Reservations rows={reservations} /> : <p className="soft">{t.noReservations}</p>}
      </Section>
    </Grid>
  );
}

function Reservations({ rows }: { rows: RunRow[] }) {
  const t = useText(text);
  const f = useFormat();
  const columns: Column<RunRow>[] = [
    { name: "run", title: t.run, lead: true, cell: (row) => <Link href={`/runs/calls/${row.id}`}>{row.id}</Link> },
    { name: "step", title: t.step, cell: (row) => <Text>{row.step ?? row.app_type}</Text> },
    {
      name: "job",
      title: t.job,
      cell: (row) => (row.trigger_job_id ? <Link href={`/runs/jobs/${row.trigger_job_id}`}>{row.trigger_job_id}</Link> : "–"),
    },
    { name: "reserved", title: t.reserved, end: true, cell: (row) => `~${f.count(row.tokens_reserved)}` },
    { name: "ceiling", title: t.ceiling, end: true, cell: (row) => f.count(row.tokens_ceiling) },
    { name: "began", title: t.began, cell: (row) => <Time at={row.created_at} as="ago" /> },
  ];
  return <Table label={t.reservations} columns={columns} rows={rows} rowKey={(row) => row.id} />;
}

function Limits({ rows }: { rows: LimitRow[] }) {
  const t = useText(text);
  const f = useFormat();
  const columns: Column<LimitRow>[] = [
    { name: "scope", title: t.scope, width: "6rem", cell: (row) => t.scopes[row.scope] ?? row.scope },
    { name: "key", title: t.key, lead: true, cell: (row) => <Text>{row.key}</Text> },
    { name: "window", title: t.window, width: "8rem", cell: (row) => f.duration(row.seconds * 1000) },
    {
      name: "calls",
      title: t.calls,
      width: "20rem",
      cell: (row) => (
        <Meter
          label={t.calls}
          limit={row.limit}
          say={f.count}
          parts={[{ name: t.calls, value: row.calls, tone: row.calls >= row.limit ? "failed" : "accent" }]}
        />
      ),
    },
  ];
  return (
    <Section title={t.limits} note={t.limitsNote}>
      {rows.length > 0 ? (
        <Table label={t.limits} columns={columns} rows={rows} rowKey={(row) => `${row.scope} ${row.key} ${row.seconds}`} />
      ) : (
        <p className="soft">{t.noLimits}</p>
      )}
    </Section>
  );
}
