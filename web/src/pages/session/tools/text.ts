/** Texts of the calls of a session by tool. */
import { words } from "../../../text";

export const text = words({
  en: {
    label: "Calls by tool",
    none: "This session called no tool",
    noMatch: "No tool matches",
    filter: "Filter tools",
    columns: { tool: "Tool", calls: "Calls", failed: "Failed", rate: "Failure rate", time: "Time", median: "Median", longest: "Longest" },
    open: (tool: string) => `Calls of ${tool}`,
    onlyFailed: "Failed only",
    sort: "Sort",
    more: (count: string) => `${count} more calls`,
    noCalls: "No call of this tool failed",
  },
  zh: {
    label: "按工具统计的调用",
    none: "此会话没有调用工具",
    noMatch: "没有匹配的工具",
    filter: "筛选工具",
    columns: { tool: "工具", calls: "调用", failed: "失败", rate: "失败率", time: "耗时", median: "中位数", longest: "最长" },
    open: (tool) => `${tool} 的调用`,
    onlyFailed: "仅失败",
    sort: "排序",
    more: (count) => `还有 ${count} 次调用`,
    noCalls: "此工具没有失败的调用",
  },
});
