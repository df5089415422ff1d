/** Models: latency, tokens per second, cache hits, cost. */
import { useMemo } from "react";

import { useGet } from "../../api/queries";
import type { ModelInsight, ModelInsights } from "../../api/shapes";
import { useFormat } from "../../format";
import { Button, Empty, Loaded } from "../../parts";
import { useText } from "../../text";
import { useRefetchOnLive } from "../usage/throttle";
import { Length, Rate } from "./cells";
import type { FigureColumn } from "./figures-table";
import { FiguresTable } from "./figures-table";
import type { MODEL_SPLITS, Question } from "./question";
import { apiParams, largest } from "./question";
import { text } from "./text";

interface ModelTableProps {
  question: Question;
  by: (typeof MODEL_SPLITS)[number] | null;
  onClear: () => void;
}

const nameOf = (row: ModelInsight) => row.model;
const partOf = (row: ModelInsight) => row.part;

export function ModelTable({ question, by, onClear }: ModelTableProps) {
  const t = useText(text);
  const asked = useMemo(() => ({ ...apiParams(question), by, limit: 1000 }), [question, by]);
  const query = useGet<ModelInsights>("/insights/models", asked, { keep: true });
  useRefetchOnLive(query.refetch, 30_000);
  const columns = useModelColumns();
  return (
    <Loaded query={query} lines={12}>
      {(found) =>
        found.items.length > 0 ? (
          <FiguresTable
            label={t.modelTable}
            title={t.model}
            rows={found.items}
            columns={columns}
            usual="calls"
            question={question}
            by={found.by}
            nameOf={nameOf}
            partOf={partOf}
            tools={false}
          />
        ) : (
          <Empty icon="insights" title={t.noModels}>
            <p>{t.longer}</p>
            <Button onClick={onClear}>{t.clearFilters}</Button>
          </Empty>
        )
      }
    </Loaded>
  );
}

function useModelColumns(): FigureColumn<ModelInsight>[] {
  const t = useText(text);
  const f = useFormat();
  return useMemo(() => {
    const figure = (
      name: string,
      title: string,
      value: FigureColumn<ModelInsight>["value"],
      cell: FigureColumn<ModelInsight>["cell"],
    ) => ({ name, title, end: true, sortable: true, value, cell });
    const costs = (row: ModelInsight, amounts: Record<string, number>) => f.cost({ costs: amounts, unpriced_tokens: row.unpriced_tokens });
    return [
      figure("calls", t.calls, (row) => row.calls, (row) => f.count(row.calls)),
      figure("errors", t.errors, (row) => row.error_rate, (row) => <Rate share={row.error_rate} count={row.errors} />),
      figure("p50", t.p50, (row) => row.p50_ms, (row) => <Length ms={row.p50_ms} row={row} />),
      figure("p95", t.p95, (row) => row.p95_ms, (row) => <Length ms={row.p95_ms} row={row} />),
      figure(
        "speed",
        t.speed,
        (row) => row.output_tokens_per_second,
        (row) => <Share text={row.output_tokens_per_second === null ? null : f.count(Math.round(row.output_tokens_per_second))} hint={t.speedHint} />,
      ),
      figure(
        "cache",
        t.cached,
        (row) => row.cache_hit_rate,
        (row) => <Share text={row.cache_hit_rate === null ? null : f.percent(row.cache_hit_rate)} hint={t.cachedHint} />,
      ),
      figure("turn_cost", t.perTurn, (row) => largest(row.cost_per_turn), (row) => costs(row, row.cost_per_turn)),
      figure("cost", t.cost, (row) => largest(row.costs), (row) => costs(row, row.costs)),
      { ...figure("turns", t.turns, (row) => row.turns, (row) => f.count(row.turns)), wideOnly: true },
      figure("sessions", t.sessions, (row) => row.sessions, (row) => f.count(row.sessions)),
    ];
  }, [t, f]);
}

function Share({ text: shown, hint }: { text: string | null; hint: string }) {
  return shown === null ? <span className="faint">–</span> : <span title={hint}>{shown}</span>;
}
