/** The breaker of each application, to be opened and closed by hand. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { post } from "../../api/client";
import { useIsAdmin } from "../../api/queries";
import type { BreakerRow } from "../../api/shapes";
import { useFormat } from "../../format";
import type { Column } from "../../parts";
import { Badge, Button, Confirm, Section, StateMark, Table, Text, Time, toast } from "../../parts";
import { useText, useTitle } from "../../text";
import { text } from "./text";

const LOOKS = { closed: "ok", open: "failed", half_open: "waiting" } as const;

interface Wish {
  row: BreakerRow;
  action: "open" | "close";
}

export function Breakers({ rows }: { rows: BreakerRow[] }) {
  const t = useText(text);
  const titleOf = useTitle();
  const f = useFormat();
  const admin = useIsAdmin();
  const [wish, setWish] = useState<Wish | null>(null);
  const columns: Column<BreakerRow>[] = [
    {
      name: "app",
      title: t.app,
      lead: true,
      cell: (row) => (
        <>
          <Text>{titleOf(row)}</Text> <code className="faint">{row.app}</code>
        </>
      ),
    },
    { name: "provider", title: t.provider, wideOnly: true, cell: (row) => <Provider row={row} /> },
    { name: "state", title: t.state, cell: (row) => <State row={row} /> },
    { name: "failures", title: t.failures, end: true, width: "8rem", cell: (row) => f.count(row.failure_count) },
    { name: "last", title: t.lastFailure, width: "9rem", cell: (row) => <Time at={row.last_failure_at} as="ago" /> },
    { name: "since", title: t.since, width: "9rem", cell: (row) => <Time at={row.changed_at} as="ago" /> },
  ];
  if (admin) {
    columns.push({
      name: "hand",
      title: "",
      end: true,
      width: "10rem",
      cell: (row) => (
        <>
          {!row.held && (
            <Button small tone="quiet" onClick={() => setWish({ row, action: "open" })}>
              {t.open}
            </Button>
          )}
          {row.state !== "closed" && (
            <Button small onClick={() => setWish({ row, action: "close" })}>
              {t.close}
            </Button>
          )}
        </>
      ),
    });
  }
  return (
    <Section title={t.breakers} note={t.breakersNote}>
      <Table label={t.breakers} columns={columns} rows={rows} rowKey={(row) => row.app} />
      {wish && <Ask wish={wish} onClose={() => setWish(null)} />}
    </Section>
  );
}

function Provider({ row }: { row: BreakerRow }) {
  const t = useText(text);
  return (
    <>
      {t.providers[row.provider] ?? row.provider} {row.model && <Text>{row.model}</Text>}
    </>
  );
}

function State({ row }: { row: BreakerRow }) {
  const t = useText(text);
  const f = useFormat();
  return (
    <>
      <StateMark state={row.state} look={LOOKS[row.state]} label={t.states[row.state]} />
      {row.held && <Badge tone="waiting">{t.held}</Badge>}
      {row.state === "open" && !row.held && row.retry_after > 0 && (
        <span className="soft"> {t.retry(f.duration(row.retry_after * 1000))}</span>
      )}
    </>
  );
}

function Ask({ wish, onClose }: { wish: Wish; onClose: () => void }) {
  const t = useText(text);
  const client = useQueryClient();
  const { row, action } = wish;
  const changing = useMutation({
    mutationFn: () => post<BreakerRow>(`/guards/breakers/${encodeURIComponent(row.app)}/${action}`),
    onSuccess: async () => {
      toast(action === "open" ? t.opened(row.app) : t.closed(row.app));
      await client.invalidateQueries({ queryKey: ["/guards"] });
      onClose();
    },
  });
  return (
    <Confirm
      open
      title={action === "open" ? t.openTitle(row.app) : t.closeTitle(row.app)}
      yes={action === "open" ? t.open : t.close}
      danger={action === "open"}
      busy={changing.isPending}
      error={changing.error}
      onYes={() => changing.mutate()}
      onClose={onClose}
    >
      {action === "open" ? t.openWhat : t.closeWhat}
    </Confirm>
  );
}
