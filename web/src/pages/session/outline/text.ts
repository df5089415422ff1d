/** Texts of the outline. */
import { words } from "../../../text";

export const text = words({
  en: {
    name: "Outline",
    turns: "Turns",
    errors: "Errors",
    files: "Files changed",
    notes: "Notes",
    turn: (number: string) => `Turn ${number}`,
    failed: (count: string) => `${count} failed`,
    more: (count: string) => `${count} more`,
    allChanges: "All changes",
    close: "Close the outline",
    show: "Show the outline",
    hide: "Hide the outline",
  },
  zh: {
    name: "大纲",
    turns: "轮次",
    errors: "错误",
    files: "修改的文件",
    notes: "备注",
    turn: (number) => `第 ${number} 轮`,
    failed: (count) => `${count} 个失败`,
    more: (count) => `还有 ${count} 项`,
    allChanges: "全部修改",
    close: "关闭大纲",
    show: "显示大纲",
    hide: "隐藏大纲",
  },
});
