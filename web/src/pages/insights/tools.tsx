/** Tools: how often they were called, how often they failed, how long they took. */
import { useMemo } from "react";

import { useGet } from "../../api/queries";
import type { ToolInsight, ToolInsights } from "../../api/shapes";
import { useFormat } from "../../format";
import { Button, Empty, Loaded, Time } from "../../parts";
import { useText } from "../../text";
import { useRefetchOnLive } from "../usage/throttle";
import { Length, Rate } from "./cells";
import type { FigureColumn } from "./figures-table";
import { FiguresTable } from "./figures-table";
import type { Question, Split } from "./question";
import { apiParams } from "./question";
import { text } from "./text";

interface ToolTableProps {
  question: Question;
  by: Split | null;
  onClear: () => void;
}

const nameOf = (row: ToolInsight) => row.tool;
const partOf = (row: ToolInsight) => row.part;

export function ToolTable({ question, by, onClear }: ToolTableProps) {
  const t = useText(text);
  const asked = useMemo(() => ({ ...apiParams(question), by, limit: 1000 }), [question, by]);
  const query = useGet<ToolInsights>("/insights/tools", asked, { keep: true });
  useRefetchOnLive(query.refetch, 30_000);
  const columns = useToolColumns();
  return (
    <Loaded query={query} lines={12}>
      {(found) =>
        found.items.length > 0 ? (
          <FiguresTable
            label={t.toolTable}
            title={t.tool}
            rows={found.items}
            columns={columns}
            usual="calls"
            question={question}
            by={found.by}
            nameOf={nameOf}
            partOf={partOf}
            tools
          />
        ) : (
          <Empty icon="insights" title={t.noTools}>
            <p>{t.longer}</p>
            <Button onClick={onClear}>{t.clearFilters}</Button>
          </Empty>
        )
      }
    </Loaded>
  );
}

function useToolColumns(): FigureColumn<ToolInsight>[] {
  const t = useText(text);
  const f = useFormat();
  return useMemo(() => {
    const figure = (name: string, title: string, value: FigureColumn<ToolInsight>["value"], cell: FigureColumn<ToolInsight>["cell"]) => ({
      name,
      title,
      end: true,
      sortable: true,
      value,
      cell,
    });
    return [
      figure("calls", t.calls, (row) => row.calls, (row) => f.count(row.calls)),
      figure(
        "failures",
        t.failures,
        (row) => row.failures,
        (row) => <span title={row.cancelled ? t.cancelled(f.count(row.cancelled)) : undefined}>{f.count(row.failures)}</span>,
      ),
      figure("failure_rate", t.rate, (row) => row.failure_rate, (row) => <Rate share={row.failure_rate} />),
      figure("p50", t.p50, (row) => row.p50_ms, (row) => <Length ms={row.p50_ms} row={row} />),
      figure("p95", t.p95, (row) => row.p95_ms, (row) => <Length ms={row.p95_ms} row={row} />),
      figure("max", t.max, (row) => row.max_ms, (row) => <Length ms={row.max_ms} row={row} />),
      figure("total", t.total, (row) => row.total_ms, (row) => <Length ms={row.total_ms} row={row} />),
      figure("sessions", t.sessions, (row) => row.sessions, (row) => f.count(row.sessions)),
      { ...figure("last", t.last, (row) => row.last_at, (row) => <Time at={row.last_at} />), wideOnly: true },
    ];
  }, [t, f]);
}
