/** The persons and machines of a team: who works on what now, and what was used today and in seven days. */
import { Link } from "wouter";

import { useGet } from "../../api/queries";
import type { Team, TeamRow } from "../../api/shapes";
import { useFormat } from "../../format";
import type { Column } from "../../parts";
import { Empty, Loaded, Page, Section, Table, Text, Time } from "../../parts";
import { useText } from "../../text";
import { address } from "../../url";
import { useRefetchOnLive } from "../usage/throttle";
import styles from "./team.module.css";
import { text } from "./text";
import { Who } from "./who";

/** The page is told of what is recorded; sessions also change their state by silence. */
const EVERY = 15_000;
const AT_MOST_EVERY = 2000;

export default function TeamPage() {
  const t = useText(text);
  const query = useGet<Team>("/team", {}, { every: EVERY });
  useRefetchOnLive(query.refetch, AT_MOST_EVERY);
  const team = query.data;
  return (
    <Page
      title={team?.name ? t.named(team.name) : t.title}
      windowTitle={t.title}
      note={team ? t.note(team.timezone) : <>&nbsp;</>}
    >
      <Loaded query={query} lines={12}>
        {(found) => (isEmpty(found) ? <Nothing /> : <Parts team={found} />)}
      </Loaded>
    </Page>
  );
}

/** Without any name there is one machine, this one, and no team. */
function isEmpty({ persons, machines }: Team): boolean {
  return [...persons, ...machines].every((row) => row.name === null);
}

function Nothing() {
  const t = useText(text);
  return (
    <Empty icon="team" title={t.nothing}>
      <p>{t.nothingNote}</p>
    </Empty>
  );
}

function Parts({ team }: { team: Team }) {
  const t = useText(text);
  return (
    <>
      <Section title={t.now} className={styles.wide}>
        <Who persons={team.now} />
      </Section>
      <Section title={t.persons}>
        <Rows rows={team.persons} of="person" />
      </Section>
      <Section title={t.machines}>
        <Rows rows={team.machines} of="machine" />
      </Section>
    </>
  );
}

interface RowsProps {
  rows: TeamRow[];
  of: "person" | "machine";
}

function Rows({ rows, of }: RowsProps) {
  const t = useText(text);
  const f = useFormat();
  const version: Column<TeamRow> = { name: "version", title: t.version, cell: (row) => <Text none={t.unknown}>{row.version}</Text> };
  const columns: Column<TeamRow>[] = [
    { name: "name", title: of === "person" ? t.person : t.machine, lead: true, cell: (row) => <Name row={row} of={of} /> },
    { name: "others", title: of === "person" ? t.machines : t.persons, cell: (row) => <Text line>{row.others.join(", ")}</Text> },
    { name: "current", title: t.current, end: true, cell: (row) => <Current row={row} /> },
    { name: "sessions", title: t.sessions, end: true, cell: (row) => f.count(row.sessions_today) },
    { name: "tokensToday", title: t.tokensToday, end: true, cell: (row) => f.tokens(row.today.tokens) },
    { name: "costToday", title: t.costToday, end: true, cell: (row) => f.cost(row.today) },
    { name: "tokensWeek", title: t.tokensWeek, end: true, wideOnly: true, cell: (row) => f.tokens(row.week.tokens) },
    { name: "costWeek", title: t.costWeek, end: true, cell: (row) => f.cost(row.week) },
    { name: "heard", title: t.heard, cell: (row) => <Time at={row.heard_at} as="ago" /> },
    ...(rows.some((row) => row.version !== null) ? [version] : []),
  ];
  return <Table label={of === "person" ? t.persons : t.machines} columns={columns} rows={rows} rowKey={(row) => row.name ?? ""} />;
}

function Name({ row, of }: { row: TeamRow; of: RowsProps["of"] }) {
  const t = useText(text);
  if (row.name === null) return <span className="soft">{of === "person" ? t.noPerson : t.noMachine}</span>;
  return (
    <Link href={address("/sessions", { [of]: [row.name] })} className={styles.name}>
      <Text line>{row.name}</Text>
    </Link>
  );
}

function Current({ row }: { row: TeamRow }) {
  const t = useText(text);
  const f = useFormat();
  if (row.working + row.waiting === 0) return <span className="faint">–</span>;
  return <span title={t.currentHint}>{t.currently(f.count(row.working), f.count(row.waiting))}</span>;
}
