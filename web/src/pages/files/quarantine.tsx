/** Lines that could not be understood, and trying them again. */
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { post } from "../../api/client";
import { useIsAdmin, usePages } from "../../api/queries";
import type { QuarantineList, QuarantineRow, RetryAnswer } from "../../api/shapes";
import { useFormat } from "../../format";
import type { Column } from "../../parts";
import { Bar, Button, Empty, Loaded, PathText, StateMark, Table, Text, Time, sentence, toast } from "../../parts";
import { useText } from "../../text";
import { useFlagParam, useNumberParam } from "../../url";
import styles from "./files.module.css";
import { QuarantinedLine } from "./quarantined-line";
import { text } from "./text";

export function Quarantine() {
  const t = useText(text);
  const [resolved, setResolved] = useFlagParam("resolved");
  const [chosen, setChosen] = useNumberParam("line");
  const admin = useIsAdmin();
  const retry = useRetry();
  const pages = usePages<QuarantineRow, QuarantineList>("/quarantine", { resolved }, { keep: true, every: 2000 });
  const waiting = pages.first?.open ?? 0;
  return (
    <Loaded query={pages}>
      {() => (
        <div className={styles.stack}>
          <Bar label={t.quarantine}>
            <label className={styles.check}>
              <input type="checkbox" checked={resolved} onChange={(event) => setResolved(event.target.checked)} />
              {t.resolved}
            </label>
            {admin && waiting > 0 && (
              <Button busy={retry.isPending} onClick={() => retry.mutate(null)}>
                {t.retryAll}
              </Button>
            )}
          </Bar>
          {waiting > 0 && <p className="soft">{t.retryNote}</p>}
          {pages.items.length > 0 ? (
            <Rows
              rows={pages.items}
              chosen={chosen}
              onOpen={(row) => setChosen(row.id, { push: true })}
              onRetry={admin ? (row) => retry.mutate([row.id]) : undefined}
            />
          ) : (
            <Empty title={t.empty} icon="check">
              {t.emptyHow}
            </Empty>
          )}
          {pages.hasNextPage && (
            <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
              {t.more}
            </Button>
          )}
          {chosen !== null && <QuarantinedLine id={chosen} onClose={() => setChosen(null)} />}
        </div>
      )}
    </Loaded>
  );
}

function useRetry() {
  const t = useText(text);
  const client = useQueryClient();
  return useMutation({
    mutationFn: (ids: number[] | null) => post<RetryAnswer>("/quarantine/retry", { ids }),
    onSuccess: async ({ asked }) => {
      toast(t.asked(asked));
      await client.invalidateQueries({ queryKey: ["/quarantine"] });
    },
    onError: (error) => toast(sentence(error), { failed: true }),
  });
}

interface RowsProps {
  rows: QuarantineRow[];
  chosen: number | null;
  onOpen: (row: QuarantineRow) => void;
  onRetry?: (row: QuarantineRow) => void;
}

function Rows({ rows, chosen, onOpen, onRetry }: RowsProps) {
  const t = useText(text);
  const f = useFormat();
  const columns: Column<QuarantineRow>[] = [
    {
      name: "reason",
      title: t.reason,
      lead: true,
      cell: (row) => (
        <button type="button" className={styles.link} onClick={() => onOpen(row)}>
          <Text>{row.reason}</Text>
        </button>
      ),
    },
    { name: "path", title: t.path, cell: (row) => <PathText>{row.file}</PathText> },
    { name: "offset", title: t.offset, end: true, width: "8rem", cell: (row) => f.count(row.offset) },
    { name: "length", title: t.length, end: true, width: "7rem", cell: (row) => f.size(row.length) },
    { name: "found", title: t.found, width: "9rem", cell: (row) => <Time at={row.found_at} as="ago" /> },
    { name: "outcome", title: t.outcome, width: "14rem", cell: (row) => <Outcome row={row} /> },
  ];
  if (onRetry) {
    columns.push({
      name: "retry",
      title: "",
      end: true,
      width: "7rem",
      cell: (row) =>
        row.resolved_at === null && (
          <Button small tone="quiet" onClick={() => onRetry(row)}>
            {t.retry}
          </Button>
        ),
    });
  }
  return <Table label={t.entries} columns={columns} rows={rows} rowKey={(row) => row.id} chosen={chosen} onOpen={onOpen} />;
}

function Outcome({ row }: { row: QuarantineRow }) {
  const t = useText(text);
  if (row.resolved_at !== null) return <StateMark state="completed" label={t.solved} />;
  if (row.retry_asked_at !== null && row.retry_result === null) return <StateMark state="running" label={t.waiting} />;
  return row.retry_result ? <Text>{row.retry_result}</Text> : <StateMark state="waiting" label={t.open} />;
}
