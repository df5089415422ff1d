/** The figures of both sessions, one below the other, with their difference. */
import type { ComparedSession, Comparison } from "../../api/shapes";
import { useFormat } from "../../format";
import { Section } from "../../parts";
import { useText } from "../../text";
import { Difference } from "./difference";
import type { SideColumn } from "./side-table";
import { SideTable } from "./side-table";
import { text } from "./text";

interface Figure {
  name: string;
  a: number | null;
  b: number | null;
  show: (amount: number) => string;
  least?: number;
}

export function FigureTable({ found }: { found: Comparison }) {
  const t = useText(text);
  const rows = useFigures(found);
  const shown = (amount: number | null, row: Figure) => (amount === null ? "?" : row.show(amount));
  const columns: SideColumn<Figure>[] = [
    { title: t.figure, cell: (row) => row.name },
    { title: "A", cell: (row) => shown(row.a, row) },
    { title: "B", cell: (row) => shown(row.b, row) },
    { title: t.difference, cell: (row) => <Difference {...row} /> },
  ];
  return (
    <Section open title={t.figures}>
      <SideTable label={t.figures} columns={columns} rows={rows} rowKey={(row) => row.name} />
    </Section>
  );
}

function useFigures(found: Comparison): Figure[] {
  const t = useText(text);
  const f = useFormat();
  const { names } = t;
  const figure = (name: string, of: (session: ComparedSession) => number | null, show: Figure["show"]): Figure => {
    return { name, a: of(found.a), b: of(found.b), show };
  };
  const currencies = [...new Set([...Object.keys(found.a.spent.costs), ...Object.keys(found.b.spent.costs)])];
  const unpriced = found.a.spent.unpriced_tokens + found.b.spent.unpriced_tokens > 0;
  return [
    figure(names.duration, (each) => each.duration_ms, f.duration),
    figure(names.active, (each) => each.active_ms, f.duration),
    figure(names.turns, (each) => each.turns, f.count),
    figure(names.steps, (each) => each.steps, f.count),
    figure(names.tools, (each) => each.tools, f.count),
    figure(names.errors, (each) => each.errors, f.count),
    figure(names.input, (each) => each.spent.input_tokens, f.tokens),
    figure(names.cacheRead, (each) => each.spent.cache_read_tokens, f.tokens),
    figure(names.cacheWrite, (each) => each.spent.cache_write_tokens, f.tokens),
    figure(names.output, (each) => each.spent.output_tokens, f.tokens),
    figure(names.reasoning, (each) => each.spent.reasoning_tokens, f.tokens),
    ...currencies.map((currency) => ({
      // Without a price the cost is not known, not nothing.
      ...figure(t.cost(currency), (each) => each.spent.costs[currency] ?? (each.spent.unpriced_tokens > 0 ? null : 0), (amount) => f.money(amount, currency)),
      least: 1e-9,
    })),
    ...(unpriced ? [figure(names.unpriced, (each) => each.spent.unpriced_tokens, f.tokens)] : []),
    figure(names.files, (each) => each.files, f.count),
    figure(names.added, (each) => each.added, f.count),
    figure(names.removed, (each) => each.removed, f.count),
    figure(names.commits, (each) => each.commits, f.count),
  ];
}
