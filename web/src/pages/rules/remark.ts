/** What a trial cannot know, or how it was estimated, in the language of the page. */
import type { TrialRemark } from "../../api/shapes";
import { useText, words } from "../../text";

/** The server's sentences are English. */
export const CHINESE: Record<TrialRemark["code"], (fact: (name: string) => string) => string> = {
  costs_of_now: () => "会话按目前的费用判断。",
  permission_waits: () => "等待授权的事件没有保存：用轮次的结束试算。",
  span_silence: () => "静默时间按已记录调用的开始和结束计算；等待授权也算静默。",
  budgets_of_now: () => "预算、价格和汇率按目前的设置计算。",
  last_reports: () => "每个限额窗口只保存最后一次报告（40 天），Claude Code 只保存最近的窗口：阈值按该报告计算，没有记录的窗口不在其中。",
  latest_lines: (fact) => `只搜索了最近 ${fact("megabytes")} MB 的记录。`,
  tokens_of_firings: () => "token 数和费用按相同应用以前的运行估计。",
  tokens_of_input: () => "token 数和费用按输入大小估计（每 4 字节一个 token）：这些应用还没有运行过，提示词和回答未计入。",
};

/** A remark as a sentence. */
export function inChinese({ code, facts, text }: TrialRemark): string {
  return code in CHINESE ? CHINESE[code]((name) => String(facts[name] ?? "")) : text;
}

const sentences = words({ en: { of: (remark: TrialRemark) => remark.text }, zh: { of: inChinese } });

/** Tells a remark. */
export function useRemark(): (remark: TrialRemark) => string {
  return useText(sentences).of;
}
