/** Changes against the period before, amounts in one or more currencies, and the bars of small charts. */
import type { PartUsage, PeriodUsage } from "../../api/shapes";
import type { Format } from "../../format";

/** `+12%`, `−40%`, `×13`; null where there is nothing to compare with. */
export function sayChange(change: number | null): string | null {
  if (change === null) return null;
  if (change >= 9.995) return `×${Math.round(change + 1)}`;
  const percent = Math.round(Math.abs(change) * 100);
  if (percent === 0) return "±0%";
  return `${change < 0 ? "−" : "+"}${percent}%`;
}

/** Amounts by currency as one text; null where there are none. */
export function sayAmounts(costs: Readonly<Record<string, number>>, f: Format): string | null {
  const amounts = Object.entries(costs).map(([currency, amount]) => f.money(amount, currency));
  return amounts.length > 0 ? amounts.join(" + ") : null;
}

/** The amounts before they were converted, where something was. */
export function sayOriginals({ amounts, bill }: Pick<PeriodUsage, "amounts" | "bill">, f: Format): string | null {
  const converted = Object.keys(amounts).some((currency) => !(currency in bill.costs));
  return converted ? sayAmounts(amounts, f) : null;
}

export interface Bar {
  name: string;
  /** From 0 to 1. */
  height: number;
  says: string;
}

/** The parts of a period as bars: by cost where that is in one currency, by tokens, or by responses. */
export function barsOf(parts: readonly PartUsage[], currencies: readonly string[], f: Format, responses: (count: string) => string): Bar[] {
  const [currency] = currencies;
  const byCost = currencies.length === 1 && currency !== undefined && parts.some((part) => part.costs);
  const value = (part: PartUsage) => (byCost ? (part.costs?.[currency] ?? 0) : (part.tokens ?? part.requests));
  const say = (part: PartUsage) => {
    if (byCost) return f.money(value(part), currency);
    return part.tokens === null ? responses(f.count(part.requests)) : f.tokens(part.tokens);
  };
  const most = Math.max(...parts.map(value), 0);
  return parts.map((part) => ({ name: part.name, height: most > 0 ? value(part) / most : 0, says: say(part) }));
}
