/** The totals of a span and its descendants: sums over ranges of the reading order. */
import { grown } from "./growing";
import type { SpanTable } from "./span-table";

export interface Sums {
  input: number;
  cached: number;
  output: number;
  steps: number;
  tools: number;
  errors: number;
  /** Model calls without a price: the costs do not include them. */
  unpriced: number;
  costs: Record<string, number>;
}

type Column = "input" | "cached" | "output" | "steps" | "tools" | "errors" | "unpriced";
const COLUMNS: Column[] = ["input", "cached", "output", "steps", "tools", "errors", "unpriced"];

export class RollUp {
  /** Prefix sums; costs by currency. */
  private readonly columns = Object.fromEntries(COLUMNS.map((name) => [name, new Float64Array(0)])) as Record<Column, Float64Array<ArrayBuffer>>;
  private readonly costs = new Map<string, Float64Array<ArrayBuffer>>();
  private length = 0;

  constructor(private readonly table: SpanTable) {}

  /** Updates the sums from an index on; those before it have not changed. */
  update(from: number): void {
    const { order } = this.table;
    let at = Math.min(from, this.length);
    // Whether a turn's failure counts depends on the model calls in it.
    for (const up of order.ancestors(order.rows[at] ?? -1)) {
      if (this.table.statusOf(up) === "error") at = Math.min(at, order.position[up] ?? at);
    }
    this.reserve();
    for (; at < order.length; at += 1) this.add(at, order.rows[at] ?? 0);
    this.length = order.length;
  }

  /** Of a span with all it contains; tokens that count in another session are left out. */
  of(row: number): Sums {
    const { order } = this.table;
    return this.between(order.position[row] ?? 0, order.last[row] ?? 0);
  }

  all(): Sums {
    return this.between(0, this.length);
  }

  private between(from: number, to: number): Sums {
    const sum = (sums: Float64Array) => (sums[to] ?? 0) - (sums[from] ?? 0);
    const found = Object.fromEntries(COLUMNS.map((name) => [name, sum(this.columns[name])])) as Record<Column, number>;
    const costs: Record<string, number> = {};
    for (const [currency, sums] of this.costs) {
      // Sums of small amounts differ in their last digits: less than a millionth is nothing.
      if (Math.abs(sum(sums)) > 1e-9) costs[currency] = sum(sums);
    }
    return { ...found, costs };
  }

  private add(at: number, row: number): void {
    const { table, columns } = this;
    const kind = table.kindOf(row);
    const counted = table.counted[row] === 1;
    const input = (counted && table.input[row]) || 0;
    const output = (counted && table.output[row]) || 0;
    const cost = table.cost[row] ?? Number.NaN;
    const priced = !Number.isNaN(cost);
    put(columns.input, at, input);
    put(columns.cached, at, (counted && table.cached[row]) || 0);
    put(columns.output, at, output);
    put(columns.steps, at, kind === "step" ? 1 : 0);
    put(columns.tools, at, kind === "tool" ? 1 : 0);
    put(columns.errors, at, countsAsFailure(table, row) ? 1 : 0);
    put(columns.unpriced, at, !priced && (input > 0 || output > 0) ? 1 : 0);
    const currency = table.currencies[row];
    if (priced && currency && !this.costs.has(currency)) this.costs.set(currency, new Float64Array(columns.input.length));
    for (const [name, sums] of this.costs) put(sums, at, priced && name === currency ? cost : 0);
  }

  private reserve(): void {
    const room = this.table.start.length + 1;
    if (this.columns.input.length >= room) return;
    for (const name of COLUMNS) this.columns[name] = grown(this.columns[name], Float64Array, room);
    for (const [currency, sums] of this.costs) this.costs.set(currency, grown(sums, Float64Array, room));
  }
}

/** Whether a span failed, and is not a turn that failed with one of its model calls: the two are one failure. */
export function countsAsFailure(table: SpanTable, row: number): boolean {
  return table.statusOf(row) === "error" && !(table.kindOf(row) === "turn" && hasFailedStep(table, row));
}

function hasFailedStep(table: SpanTable, turn: number): boolean {
  const { order } = table;
  for (let at = (order.position[turn] ?? 0) + 1; at < (order.last[turn] ?? 0); ) {
    const row = order.rows[at] ?? 0;
    if (table.kindOf(row) === "step" && table.statusOf(row) === "error") return true;
    at = order.last[row] ?? at + 1;
  }
  return false;
}

/** The sum behind a place. */
function put(sums: Float64Array, at: number, grows: number): void {
  sums[at + 1] = (sums[at] ?? 0) + grows;
}
