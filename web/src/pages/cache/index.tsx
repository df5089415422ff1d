/** Cached results: list, content, invalidation. */
import { useState } from "react";

import { useIsAdmin, usePages } from "../../api/queries";
import type { CacheList, CacheRow, CacheStatus } from "../../api/shapes";
import type { Column } from "../../parts";
import { Bar, Button, Empty, Loaded, Page, SearchInput, Select, StateMark, Table, Text, Time, useSteadyError } from "../../parts";
import { useText } from "../../text";
import { useParams } from "../../url";
import { Away, isAway } from "../runs/away";
import type { Target } from "./invalidate";
import { Invalidate } from "./invalidate";
import { Result } from "./result";
import { text } from "./text";

const STATUSES = ["generating", "valid", "expired", "invalidated"] as const satisfies readonly CacheStatus[];

export default function Cache() {
  const t = useText(text);
  const params = useParams();
  const admin = useIsAdmin();
  const [target, setTarget] = useState<Target | null>(null);
  const filters = { type: params.text("type"), site: params.text("site"), target: params.text("target") };
  const status = params.text("status");
  const pages = usePages<CacheRow, CacheList>("/cache", { ...filters, status }, { keep: true, every: 5000 });
  const chosen = params.number("result");
  const filtered = Boolean(filters.type || filters.site || filters.target);
  const types = pages.first?.types ?? [];
  const error = useSteadyError(pages);
  if (pages.data === undefined && isAway(error)) {
    return (
      <Page title={t.title}>
        <Away error={error} />
      </Page>
    );
  }
  return (
    <Page title={t.title} note={t.note}>
      <Bar label={t.results}>
        <Select
          label={t.type}
          value={filters.type}
          none={t.any}
          options={types.map((value) => ({ value, label: value }))}
          onChange={(type) => params.change({ type, result: null })}
        />
        <Select
          label={t.status}
          value={status}
          none={t.any}
          options={STATUSES.map((value) => ({ value, label: t.statuses[value] }))}
          onChange={(next) => params.change({ status: next, result: null })}
        />
        <SearchInput label={t.site} placeholder={t.site} value={filters.site} onChange={(site) => params.change({ site: digits(site) })} />
        <SearchInput label={t.target} placeholder={t.target} value={filters.target} onChange={(about) => params.change({ target: about })} />
        {admin && filtered && pages.items.some((row) => row.status === "valid") && (
          <Button small tone="danger" onClick={() => setTarget(filters)}>
            {t.takeAll}
          </Button>
        )}
      </Bar>
      <Loaded query={pages}>
        {() =>
          pages.items.length > 0 ? (
            <>
              <Rows rows={pages.items} chosen={chosen} onOpen={(row) => params.change({ result: row.id }, { push: true })} />
              {pages.hasNextPage && (
                <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
                  {t.more}
                </Button>
              )}
            </>
          ) : (
            <Empty title={t.none} icon="cache">
              <p>{t.noneHow}</p>
              {(filtered || status) && (
                <Button onClick={() => params.change({ type: null, site: null, target: null, status: null })}>{t.clear}</Button>
              )}
            </Empty>
          )
        }
      </Loaded>
      {chosen !== null && (
        <Result id={chosen} onClose={() => params.change({ result: null })} onInvalidate={admin ? () => setTarget({ id: chosen }) : undefined} />
      )}
      {target && <Invalidate target={target} onClose={() => setTarget(null)} />}
    </Page>
  );
}

/** Stores are numbers; whatever else is typed is left out. */
function digits(text: string): string {
  return text.replace(/\D/g, "").slice(0, 18);
}

interface RowsProps {
  rows: CacheRow[];
  chosen: number | null;
  onOpen: (row: CacheRow) => void;
}

function Rows({ rows, chosen, onOpen }: RowsProps) {
  const t = useText(text);
  const columns: Column<CacheRow>[] = [
    {
      name: "id",
      title: t.id,
      width: "6rem",
      cell: (row) => (
        <Button small tone="quiet" onClick={() => onOpen(row)}>
          {row.id}
        </Button>
      ),
    },
    { name: "type", title: t.type, lead: true, cell: (row) => <Text>{row.cache_type}</Text> },
    { name: "site", title: t.site, end: true, width: "6rem", cell: (row) => row.site_id },
    { name: "target", title: t.target, cell: (row) => <Text>{row.target_id}</Text> },
    { name: "status", title: t.status, cell: (row) => <StateMark state={row.status} /> },
    { name: "made", title: t.made, cell: (row) => <Time at={row.created_at} as="ago" /> },
    { name: "expires", title: t.expires, cell: (row) => (row.expires_at ? <Time at={row.expires_at} as="clock" /> : t.never) },
    { name: "by", title: t.by, cell: (row) => <Text none="–">{row.triggered_by}</Text> },
  ];
  return <Table label={t.results} columns={columns} rows={rows} rowKey={(row) => row.id} chosen={chosen} onOpen={onOpen} />;
}
