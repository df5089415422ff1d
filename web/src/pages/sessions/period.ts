/** A part of time in an address: from `since` on and before `until`, which is not part of it; people say the last day. */

export interface Period {
  since: string;
  until: string;
}

/** Periods that people ask for, as the server understands them: they stay what they are called as time passes. */
export const PRESETS = {
  today: { since: "today", until: "" },
  yesterday: { since: "yesterday", until: "today" },
  week: { since: "week", until: "" },
  month: { since: "month", until: "" },
  "last-month": { since: "last-month", until: "month" },
  "7d": { since: "7d", until: "" },
  "30d": { since: "30d", until: "" },
} as const satisfies Record<string, Period>;
export type Preset = keyof typeof PRESETS;

/** The preset that a period is, if any. */
export function presetOf({ since, until }: Period): Preset | null {
  const names = Object.keys(PRESETS) as Preset[];
  return names.find((name) => PRESETS[name].since === since && PRESETS[name].until === until) ?? null;
}

const DAY = /^\d{4}-\d\d-\d\d$/;

export function isDay(text: string): boolean {
  return DAY.test(text) && !Number.isNaN(Date.parse(`${text}T00:00Z`));
}

/** The day that is so many days after another one; "" where it is none. */
export function dayPlus(day: string, days: number): string {
  if (!isDay(day)) return "";
  const date = new Date(`${day}T00:00Z`);
  date.setUTCDate(date.getUTCDate() + days);
  return date.toISOString().slice(0, 10);
}

/** The period of all days from one to another, both part of it; either may be "". */
export function periodOf(first: string, last: string): Period {
  const [from, to] = first && last && first > last ? [last, first] : [first, last];
  return { since: from, until: dayPlus(to, 1) };
}

/** The first and the last day of a period, where it is made of days. */
export function daysOf({ since, until }: Period): { first: string; last: string } {
  return { first: isDay(since) ? since : "", last: dayPlus(until, -1) };
}

/** The days of a month such as `2026-11`. */
export function monthPeriod(month: string): Period {
  const [year = 0, number = 0] = month.split("-").map(Number);
  const next = number === 12 ? `${year + 1}-01` : `${year}-${String(number + 1).padStart(2, "0")}`;
  return { since: `${month}-01`, until: `${next}-01` };
}
