/** Who changed what, newest first. */
import { useIsAdmin, usePages } from "../../api/queries";
import type { AuditList, AuditRow } from "../../api/shapes";
import type { Column } from "../../parts";
import { Button, Empty, Loaded, Table, Text, Time } from "../../parts";
import { useText } from "../../text";
import styles from "./settings.module.css";
import { text } from "./text";

export function Audit() {
  const t = useText(text);
  const admin = useIsAdmin();
  const pages = usePages<AuditRow, AuditList>("/audit", {}, { when: admin });
  if (!admin) return <Empty title={t.adminsOnly} />;
  return (
    <Loaded query={pages}>
      {() =>
        pages.items.length > 0 ? (
          <div className={styles.stack}>
            <Rows rows={pages.items} />
            {pages.hasNextPage && (
              <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
                {t.more}
              </Button>
            )}
          </div>
        ) : (
          <Empty title={t.noAudit}>{t.noAuditHow}</Empty>
        )
      }
    </Loaded>
  );
}

function Rows({ rows }: { rows: AuditRow[] }) {
  const t = useText(text);
  const columns: Column<AuditRow>[] = [
    { name: "when", title: t.when, width: "11rem", cell: (row) => <Time at={row.at} as="clock" /> },
    { name: "who", title: t.who, lead: true, cell: (row) => <Text>{row.user}</Text> },
    { name: "action", title: t.action, cell: (row) => <code>{row.action}</code> },
    { name: "target", title: t.target, cell: (row) => <Text none="–">{row.target}</Text> },
    { name: "outcome", title: t.outcome, cell: (row) => <Text>{row.outcome}</Text> },
    { name: "from", title: t.from, cell: (row) => <Text mono>{row.address}</Text> },
  ];
  return <Table label={t.audit} columns={columns} rows={rows} rowKey={(row) => row.id} />;
}
