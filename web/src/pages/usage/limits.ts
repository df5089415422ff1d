/** What the card of budgets and limits shows of them. */
import type { AgentBudget, ProviderWindow } from "../../api/shapes";
import type { Format } from "../../format";

/** From which share on something deserves attention. */
const NEAR = 0.8;

/** An amount of a budget's unit. */
export function amount(f: Format, budget: Pick<AgentBudget, "unit" | "currency">, value: number): string {
  if (budget.unit === "tokens") return f.tokens(Math.round(value));
  return budget.currency ? f.money(value, budget.currency) : f.count(Math.round(value * 100) / 100);
}

/** The colour of a share. */
export function tone(share: number | null): "accent" | "waiting" | "failed" {
  return (share ?? 0) >= 1 ? "failed" : (share ?? 0) >= NEAR ? "waiting" : "accent";
}

/** Rates and forecast, where all of them are known. */
export function pace(budget: AgentBudget): { rate: number; recent: number; forecast: number } | null {
  const { rate, recent_rate: recent, forecast } = budget;
  return rate === null || recent === null || forecast === null ? null : { rate, recent, forecast };
}

/** The windows that have not ended by now. */
export function openWindows(windows: ProviderWindow[], now: number): ProviderWindow[] {
  return windows.filter((each) => !each.expired && Date.parse(each.resets_at) > now);
}
