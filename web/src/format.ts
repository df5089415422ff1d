/** Numbers, money, spans of time and moments as people read them, in the language that is shown. */
import type { Bill } from "./api/shapes";
import type { Language } from "./text";
import { useLanguage } from "./text";

const SIGNS: Record<string, string> = { USD: "$", CNY: "¥", EUR: "€", GBP: "£" };
const LOCALES: Record<Language, string> = { en: "en-GB", zh: "zh-CN" };
const DASH = "–";

type Moment = string | number | Date;
/** The part of a bill that a cost text needs. */
export type Priced = Pick<Bill, "costs" | "unpriced_tokens">;

interface Units {
  ms: string;
  s: string;
  m: string;
  h: string;
  d: string;
  justNow: string;
}

const UNITS: Record<Language, Units> = {
  en: { ms: " ms", s: " s", m: "m", h: "h", d: "d", justNow: "just now" },
  zh: { ms: " 毫秒", s: " 秒", m: " 分", h: " 小时", d: " 天", justNow: "刚刚" },
};

/** `950`, `12.3k`, `4.56M`, `1.20B`. */
export function tokens(count: number | null | undefined): string {
  if (count === null || count === undefined) return DASH;
  if (count < 1000) return String(Math.round(count));
  if (count < 999_950) return `${(count / 1000).toFixed(1)}k`;
  if (count < 999_995_000) return `${(count / 1e6).toFixed(2)}M`;
  return `${(count / 1e9).toFixed(2)}B`;
}

/** `512 B`, `1.2 GB`. */
export function size(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return DASH;
  if (bytes < 1000) return `${Math.round(bytes)} B`;
  let amount = bytes;
  for (const unit of ["kB", "MB", "GB", "TB"]) {
    amount /= 1000;
    if (amount < 999.5 || unit === "TB") return `${amount.toFixed(amount < 99.95 ? 1 : 0)} ${unit}`;
  }
  return DASH;
}

/** `$1.23`; below a cent with as many digits as needed; a dash if there is no amount. */
export function money(amount: number | null | undefined, currency: string | null | undefined): string {
  if (amount === null || amount === undefined || !currency) return DASH;
  const sign = SIGNS[currency] ?? `${currency} `;
  const digits = Math.abs(amount);
  if (digits > 0 && digits < 0.01) return digits < 0.00005 ? `<${sign}0.0001` : `${sign}${amount.toFixed(4)}`;
  const [whole = "", cents = ""] = amount.toFixed(2).split(".");
  return `${sign}${whole.replace(/\B(?=(\d{3})+$)/g, ",")}.${cents}`;
}

/** `$1.23`, `$1.23 + ¥4.00`; with `+?` where part has no price, `?` where nothing has one. Unknown is never 0. */
export function cost(bill: Priced): string {
  const amounts = Object.entries(bill.costs)
    .map(([currency, amount]) => money(amount, currency))
    .join(" + ");
  if (!amounts) return bill.unpriced_tokens ? "?" : DASH;
  return bill.unpriced_tokens ? `${amounts} +?` : amounts;
}

/** `3.4%`; a share of nothing is a dash. */
export function percent(part: number, whole = 1): string {
  if (!whole) return DASH;
  const share = (100 * part) / whole;
  if (share > 0 && share < 0.1) return "<0.1%";
  return `${share.toFixed(share < 9.95 && share !== Math.round(share) ? 1 : 0)}%`;
}

function pad(number: number): string {
  return String(number).padStart(2, "0");
}

/** `850 ms`, `3.2 s`, `4m 05s`, `2h 13m`, `3d 04h`. */
function duration(language: Language, ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return DASH;
  const units = UNITS[language];
  const second = language === "en" ? "s" : " 秒";
  if (ms < 999.5) return `${ms > 0 && ms < 0.95 ? ms.toFixed(1) : Math.round(Math.max(ms, 0))}${units.ms}`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)}${units.s}`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}${units.m} ${pad(seconds % 60)}${second}`;
  const minutes = Math.round(ms / 60_000);
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)}${units.h} ${pad(minutes % 60)}${units.m}`;
  const hours = Math.round(ms / 3_600_000);
  return `${Math.floor(hours / 24)}${units.d} ${pad(hours % 24)}${units.h}`;
}

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_557_600],
  ["month", 2_629_800],
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];

function ago(language: Language, relative: Intl.RelativeTimeFormat, then: Moment | null, now: number): string {
  const at = momentOf(then);
  if (at === null) return DASH;
  const seconds = (at.getTime() - now) / 1000;
  if (Math.abs(seconds) < 1.5) return UNITS[language].justNow;
  // From 99.5 % of a unit on, that unit is used: "60 minutes ago" becomes an hour.
  const [unit, length] = STEPS.find(([, length]) => Math.abs(seconds) >= length * 0.995) ?? ["second", 1];
  return relative.format(Math.trunc(Math.abs(seconds) / length + 0.005) * Math.sign(seconds), unit);
}

/** The time of an ISO string, of milliseconds since 1970 or of a date; null if it is invalid. */
export function momentOf(moment: Moment | null | undefined): Date | null {
  if (moment === null || moment === undefined) return null;
  const date = new Date(moment);
  return Number.isNaN(date.getTime()) ? null : date;
}

export interface Format {
  /** `12,345` */
  count(number: number | null | undefined): string;
  tokens(count: number | null | undefined): string;
  size(bytes: number | null | undefined): string;
  /** An amount in units of its currency. */
  money(amount: number | null | undefined, currency: string | null | undefined): string;
  cost(bill: Priced): string;
  percent(part: number, whole?: number): string;
  /** Of milliseconds. */
  duration(ms: number | null | undefined): string;
  /** From one ISO time to another, or to now. */
  between(start: Moment | null, end: Moment | null, now?: number): string;
  /** `3 minutes ago` */
  ago(then: Moment | null, now?: number): string;
  /** As short as can be: `14:03` today, `15 Nov, 14:03` this year, `15 Nov 2025` before. */
  clock(then: Moment | null, now?: number): string;
  /** `14:03:27` */
  timeOfDay(then: Moment | null): string;
  /** With seconds and the time zone. */
  exact(then: Moment | null): string;
  /** `15 Nov 2025`; a plain date like `2025-11-15` stays that day in every time zone. */
  day(then: Moment | null): string;
}

function made(language: Language): Format {
  const locale = LOCALES[language];
  const numbers = new Intl.NumberFormat(locale === "en-GB" ? "en-US" : locale);
  const relative = new Intl.RelativeTimeFormat(locale, { numeric: "always", style: language === "en" ? "short" : "long" });
  const style = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(locale, { hourCycle: "h23", ...options });
  const today = style({ hour: "2-digit", minute: "2-digit" });
  const thisYear = style({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  const date = style({ day: "numeric", month: "short", year: "numeric" });
  const plainDate = style({ day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
  const seconds = style({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const exact = style({ dateStyle: "medium", timeStyle: "long" });
  const say = (formatter: Intl.DateTimeFormat, then: Moment | null) => {
    const at = momentOf(then);
    return at ? formatter.format(at) : DASH;
  };
  return {
    count: (number) => (number === null || number === undefined ? DASH : numbers.format(number)),
    tokens,
    size,
    money,
    cost,
    percent,
    duration: (ms) => duration(language, ms),
    between: (start, end, now = Date.now()) => {
      const from = momentOf(start);
      return from ? duration(language, (momentOf(end)?.getTime() ?? now) - from.getTime()) : DASH;
    },
    ago: (then, now = Date.now()) => ago(language, relative, then, now),
    clock: (then, now = Date.now()) => {
      const at = momentOf(then);
      const here = new Date(now);
      if (!at) return DASH;
      if (at.toDateString() === here.toDateString()) return today.format(at);
      return (at.getFullYear() === here.getFullYear() ? thisYear : date).format(at);
    },
    timeOfDay: (then) => say(seconds, then),
    exact: (then) => say(exact, then),
    day: (then) => say(typeof then === "string" && /^\d{4}-\d{2}-\d{2}$/.test(then) ? plainDate : date, then),
  };
}

const MADE: Partial<Record<Language, Format>> = {};

/** All formats of a language. */
export function formats(language: Language): Format {
  return (MADE[language] ??= made(language));
}

/** All formats of the language that is shown. */
export function useFormat(): Format {
  return formats(useLanguage());
}
