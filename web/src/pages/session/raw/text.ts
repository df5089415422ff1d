/** Texts of the raw lines of a session. */
import { words } from "../../../text";

export const text = words({
  en: {
    label: "Recorded lines",
    summary: (count: string) => `${count} lines, as they were written`,
    goTo: "Go to line",
    go: "Go",
    noLine: (count: string) => `There are ${count} lines.`,
    earlier: "Earlier lines",
    more: "More lines",
    none: "No lines are stored for this session",
    line: (number: string) => `Line ${number}`,
    copyLine: "Copy the line",
    whole: "Show the whole line",
    less: "Show less",
    toSpan: "Show in the conversation",
    place: (offset: string) => `byte ${offset}`,
    focusKey: "Go to line",
  },
  zh: {
    label: "记录的行",
    summary: (count) => `${count} 行日志原文`,
    goTo: "跳到行",
    go: "跳转",
    noLine: (count) => `共有 ${count} 行。`,
    earlier: "更早的行",
    more: "更多行",
    none: "没有保存此会话的原始行",
    line: (number) => `第 ${number} 行`,
    copyLine: "复制该行",
    whole: "显示整行",
    less: "收起",
    toSpan: "在对话中显示",
    place: (offset) => `字节 ${offset}`,
    focusKey: "跳到行",
  },
});
