/** Small facts about spans that several views say in the same way. */
import { useFormat } from "../../format";
import { StateMark, useNow } from "../../parts";
import { useText } from "../../text";
import type { Sums } from "./model/roll-up";
import type { SpanTable } from "./model/span-table";
import { useSessionTools } from "./session-context";
import { text } from "./text";

/** How long a span took, or has been taking. */
export function Duration({ table, row }: { table: SpanTable; row: number }) {
  const f = useFormat();
  const { live } = useSessionTools();
  if (live && table.statusOf(row) === "open") return <Running start={table.start[row] ?? 0} />;
  const end = table.end[row] ?? Number.NaN;
  return <>{Number.isNaN(end) ? "–" : f.duration(end - (table.start[row] ?? 0))}</>;
}

function Running({ start }: { start: number }) {
  const f = useFormat();
  const now = useNow();
  return <>{f.duration(Math.max(now - start, 0))}</>;
}

/** Cost of one model call: `?` without a price, a dash if there is nothing to pay here. */
export function SpanCost({ table, row }: { table: SpanTable; row: number }) {
  const t = useText(text);
  const f = useFormat();
  if (table.counted[row] === 0) return <span title={t.pane.elsewhere}>–</span>;
  const cost = table.cost[row] ?? Number.NaN;
  const used = (table.input[row] || 0) + (table.output[row] || 0) > 0;
  if (Number.isNaN(cost)) return used ? <span title={t.pane.noPrice(table.models[row] ?? "?")}>?</span> : null;
  const estimated = table.estimated[row] === 1;
  return (
    <span title={estimated ? t.pane.estimated : undefined}>
      {estimated && "≈"}
      {f.money(cost, table.currencies[row])}
    </span>
  );
}

/** The cost of several model calls, with a question mark where some have no price. */
export function SumCost({ sums }: { sums: Sums }) {
  const f = useFormat();
  if (Object.keys(sums.costs).length === 0 && sums.unpriced === 0) return null;
  return <>{f.cost({ costs: sums.costs, unpriced_tokens: sums.unpriced })}</>;
}

/** The state, unless it is ok. */
export function Mark({ table, row }: { table: SpanTable; row: number }) {
  const status = table.statusOf(row);
  return status === "ok" ? null : <StateMark state={status} bare />;
}
