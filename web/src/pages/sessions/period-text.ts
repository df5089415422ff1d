/** Texts of the filter by time. */
import { words } from "../../text";

export const periodText = words({
  en: {
    label: "Time",
    always: "All time",
    presets: {
      today: "Today",
      yesterday: "Yesterday",
      week: "This week",
      month: "This month",
      "last-month": "Last month",
      "7d": "Last 7 days",
      "30d": "Last 30 days",
    },
    words: { yesterday: "yesterday", week: "Monday", "last-week": "Monday of last week", month: "the 1st", "last-month": "the 1st of last month" },
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
      week: "本周",
      month: "本月",
      "last-month": "上月",
      "7d": "近 7 天",
      "30d": "近 30 天",
    },
    words: { yesterday: "昨天", week: "周一", "last-week": "上周一", month: "1 日", "last-month": "上月 1 日" },
    first: "从",
    last: "到",
    clear: "清除",
    fromOn: (day) => `${day} 起`,
    upTo: (day) => `截至 ${day}`,
    between: (from, to) => `${from} – ${to}`,
  },
});
