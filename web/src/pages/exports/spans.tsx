/** Spans of a destination in one state, with the answer for each. */
import { Link } from "wouter";

import { usePages } from "../../api/queries";
import type { Destination, ExportSpan, ExportSpanList } from "../../api/shapes";
import { useFormat } from "../../format";
import type { Column } from "../../parts";
import { Button, IconButton, Loaded, Table, Text, Time } from "../../parts";
import { useText } from "../../text";
import { address } from "../../url";
import styles from "./exports.module.css";
import type { Listed } from "./states";
import { text } from "./text";

export function Spans({ row, state, onClose }: { row: Destination; state: Listed; onClose: () => void }) {
  const t = useText(text);
  const path = `/exports/${encodeURIComponent(row.name)}/spans`;
  const pages = usePages<ExportSpan, ExportSpanList>(path, { state }, { keep: true, every: 5000 });
  const title = t.spansOf(t.states[state], row.name);
  return (
    <div className={styles.spans}>
      <div className={styles.spansHead}>
        <h3>{title}</h3>
        <IconButton icon="close" label={t.close} onClick={onClose} />
      </div>
      <Loaded query={pages}>
        {() => (
          <>
            {pages.items.length > 0 ? <Rows rows={pages.items} label={title} /> : <p className="soft">{t.noSpans}</p>}
            {pages.hasNextPage && (
              <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
                {t.more}
              </Button>
            )}
          </>
        )}
      </Loaded>
    </div>
  );
}

function Rows({ rows, label }: { rows: ExportSpan[]; label: string }) {
  const t = useText(text);
  const f = useFormat();
  const columns: Column<ExportSpan>[] = [
    { name: "span", title: t.span, lead: true, width: "16rem", cell: (row) => <SpanLink row={row} /> },
    { name: "session", title: t.session, width: "14rem", cell: (row) => <Text line>{row.title ?? row.session_id}</Text> },
    { name: "answer", title: t.answer, cell: (row) => <Text>{row.answer}</Text> },
    { name: "tries", title: t.tries, end: true, width: "4rem", cell: (row) => f.count(row.attempts) },
    { name: "when", title: t.when, width: "8rem", cell: (row) => <Time at={row.at} /> },
  ];
  return <Table label={label} columns={columns} rows={rows} rowKey={(row) => `${row.session} ${row.span_id}`} />;
}

/** Links to the span in its session, if it still exists. */
function SpanLink({ row }: { row: ExportSpan }) {
  const t = useText(text);
  if (row.span === null) {
    return (
      <span>
        <code>{row.span_id}</code> <span className="faint">{t.gone}</span>
      </span>
    );
  }
  return (
    <Link href={address(`/sessions/${row.session}`, { span: row.span_id })}>
      <Text>{row.span}</Text>
    </Link>
  );
}
