/** The measure: tokens, or the cost in one currency. Amounts in different currencies are never added. */
import type { Bill, NamedBill } from "../../api/shapes";
import { allTokens } from "../../parts/bill";
import type { Format } from "../../format";

/** `tokens`, or a currency such as `USD`. */
export type Measure = string;

/** The possible measures of a bill, the currency of the largest amount first. */
export function measuresOf(bill: Pick<Bill, "costs">): Measure[] {
  const currencies = Object.entries(bill.costs).toSorted(([, one], [, other]) => other - one);
  return [...currencies.map(([currency]) => currency), "tokens"];
}

/** The requested measure if it exists; else cost, unless it is in several currencies. */
export function measureFor(asked: string, bill: Pick<Bill, "costs">): Measure {
  const measures = measuresOf(bill);
  if (measures.includes(asked)) return asked;
  return measures.length === 2 ? (measures[0] ?? "tokens") : "tokens";
}

export function amountOf(bill: Bill, measure: Measure): number {
  return measure === "tokens" ? allTokens(bill) : (bill.costs[measure] ?? 0);
}

export function sayAmount(amount: number, measure: Measure, f: Format): string {
  return measure === "tokens" ? f.tokens(amount) : f.money(amount, measure);
}

/** Bills with the largest first; draws, such as those without a price, by tokens. */
export function ranked<T extends { bill: Bill }>(bills: readonly T[], measure: Measure): T[] {
  return bills.toSorted(
    (one, other) => amountOf(other.bill, measure) - amountOf(one.bill, measure) || allTokens(other.bill) - allTokens(one.bill),
  );
}

export interface Stacks {
  /** Names of the series, the largest first; null are all others together. */
  names: (string | null)[];
  /** For each series its amount in every group. */
  amounts: number[][];
}

/** The parts of groups as series; beyond this number the smallest are merged, because twenty colours are too many. */
export function stacksOf(groups: readonly (readonly NamedBill[])[], measure: Measure, most = 7): Stacks {
  const sums = new Map<string, number>();
  for (const { name, bill } of groups.flat()) sums.set(name, (sums.get(name) ?? 0) + amountOf(bill, measure));
  const names = [...sums]
    .filter(([, sum]) => sum > 0)
    .toSorted(([one, a], [other, b]) => b - a || (one < other ? -1 : 1))
    .map(([name]) => name);
  const shown = names.length > most + 1 ? names.slice(0, most) : names;
  const amounts = shown.map((name) => groups.map((parts) => sumOf(parts, measure, (other) => other === name)));
  if (shown.length === names.length) return { names: shown, amounts };
  const known = new Set(shown);
  return {
    names: [...shown, null],
    amounts: [...amounts, groups.map((parts) => sumOf(parts, measure, (name) => !known.has(name)))],
  };
}

function sumOf(parts: readonly NamedBill[], measure: Measure, wanted: (name: string) => boolean): number {
  return parts.reduce((sum, { name, bill }) => sum + (wanted(name) ? amountOf(bill, measure) : 0), 0);
}
