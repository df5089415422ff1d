/** The ledger of each destination that spans are sent to. */
import { useGet } from "../../api/queries";
import type { Destination, Exports as ExportsShape } from "../../api/shapes";
import { useFormat } from "../../format";
import type { Column } from "../../parts";
import { Empty, LinkButton, Loaded, Page, StateMark, Table, Text, Time } from "../../parts";
import { useText } from "../../text";
import { text } from "./text";

export default function Exports() {
  const t = useText(text);
  const found = useGet<ExportsShape>("/exports", {}, { every: 2000 });
  return (
    <Page title={t.title} note={t.note}>
      <Loaded query={found}>
        {({ destinations }) =>
          destinations.length > 0 ? (
            <Ledger rows={destinations} />
          ) : (
            <Empty title={t.none} icon="exports">
              <p>{t.noneHow}</p>
              <LinkButton href="/sessions">{t.sessions}</LinkButton>
            </Empty>
          )
        }
      </Loaded>
    </Page>
  );
}

function Ledger({ rows }: { rows: Destination[] }) {
  const t = useText(text);
  const f = useFormat();
  const columns: Column<Destination>[] = [
    { name: "name", title: t.name, lead: true, cell: (row) => <Text>{row.name}</Text> },
    { name: "kind", title: t.kind, cell: (row) => row.kind },
    { name: "state", title: t.state, cell: (row) => <StateMark state={row.state} /> },
    { name: "queued", title: t.queued, end: true, cell: (row) => f.count(row.queued) },
    { name: "acknowledged", title: t.acknowledged, end: true, cell: (row) => f.count(row.acknowledged) },
    { name: "refused", title: t.refused, end: true, cell: (row) => f.count(row.refused) },
    { name: "unknown", title: t.unknown, end: true, cell: (row) => f.count(row.unknown) },
    { name: "last", title: t.last, cell: (row) => <Time at={row.last_sent_at} as="ago" /> },
    { name: "error", title: t.error, cell: (row) => <Text none="–">{row.last_error}</Text> },
  ];
  return <Table label={t.table} columns={columns} rows={rows} rowKey={(row) => row.name} />;
}
