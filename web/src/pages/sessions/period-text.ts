/** Texts of the filter by time. */
import { words } from "../../text";

export const periodText = words({
  en: {
    label: "Time",
    always: "All time",
    spans: { today: "Today", yesterday: "Since yesterday", "7d": "7 days", "30d": "30 days" },
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
    spans: { today: "今天", yesterday: "昨天以来", "7d": "近 7 天", "30d": "近 30 天" },
    first: "从",
    last: "到",
    clear: "清除",
    fromOn: (day) => `${day} 起`,
    upTo: (day) => `截至 ${day}`,
    between: (from, to) => `${from} – ${to}`,
  },
});
