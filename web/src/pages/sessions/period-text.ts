/** Texts of the filter by time. */
import { words } from "../../text";

export const periodText = words({
  en: {
    label: "Time",
    always: "All time",
    presets: {
      today: "Today",
      yesterday: "Yesterday",
      "this-week": "This week",
      "last-week": "Last week",
      "this-month": "This month",
      "last-month": "Last month",
      "7d": "Last 7 days",
      "30d": "Last 30 days",
      "90d": "Last 90 days",
    },
    first: "From",
    last: "To",
    clear: "Clear",
    fromOn: (day: string) => `from ${day}`,
    upTo: (day: string) => `up to ${day}`,
    between: (from: string, to: string) => `${from} – ${to}`,
  },
  zh: {
    label: "时间",
    always: "全部时间",
    presets: {
      today: "今天",
      yesterday: "昨天",
      "this-week": "本周",
      "last-week": "上周",
      "this-month": "本月",
      "last-month": "上月",
      "7d": "近 7 天",
      "30d": "近 30 天",
      "90d": "近 90 天",
    },
    first: "从",
    last: "到",
    clear: "清除",
    fromOn: (day) => `${day} 起`,
    upTo: (day) => `截至 ${day}`,
    between: (from, to) => `${from} – ${to}`,
  },
});
