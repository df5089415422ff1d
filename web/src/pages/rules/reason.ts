/** Why a rule did not fire, in the language of the page. */
import type { Reason } from "../../api/shapes";
import { useText, words } from "../../text";

/** The server's sentences are English. */
type Sentences = Record<Reason["code"], (fact: (name: string) => string) => string>;

const NAMES: Record<string, string> = {
  agent: "智能体",
  branch: "分支",
  machine: "机器",
  person: "人员",
  tool: "工具",
  budget: "预算",
  destination: "目的地",
  secret: "密钥",
  project: "项目",
  model: "模型",
};
const ONCE: Record<string, string> = { session: "会话", turn: "轮次", span: "span", event: "事件" };

const chinese: Sentences = {
  before_start: () => "发生在规则开始之前",
  sample: (fact) => `不在 ${fact("share")} 的抽样中`,
  session_removed: () => "会话已被清理",
  caused: () => "会话由规则引起",
  demo: () => "会话是演示数据",
  history: () => "会话已结束，或等待时间超过 record.waiting_hours",
  went_on: () => "静默时间未满，会话已继续",
  fired_before: (fact) => `已为该${ONCE[fact("once")] ?? fact("once")}触发过（触发 ${fact("firing")}）`,
  fired_already: (fact) => `已为该${ONCE[fact("once")] ?? fact("once")}触发过`,
  cooling: () => "暂缓：冷却结束后并入下一条消息",
  noted_before: (fact) => `已为该${ONCE[fact("once")] ?? fact("once")}记下过`,
  told: (fact) => `遥测与日志说的是同一件事，已触发过（触发 ${fact("firing")}）`,
  most_messages: (fact) => `今天已触发 ${fact("count")} 次，max_per_day 为 ${fact("limit")}`,
  most_tokens: (fact) => `今天已用 ${fact("count")} 个 token，tokens_per_day 为 ${fact("limit")}`,
  later_messages: (fact) => `改天再触发：今天已触发 ${fact("count")} 次，max_per_day 为 ${fact("limit")}`,
  later_tokens: (fact) => `改天再触发：今天已用 ${fact("count")} 个 token，tokens_per_day 为 ${fact("limit")}`,
  switched_off: () => "规则已关闭",
  collected: (fact) => `并入触发 ${fact("firing")} 的消息`,
  is: (fact) => `${NAMES[fact("name")] ?? fact("name")}为 ${fact("value")}`,
  secret_by_name: (fact) => `密钥为 ${fact("value")}，仅由名称判断`,
  labels: (fact) => `标签为 ${fact("value")}`,
  cost_unknown: () => "费用未知",
  cost: (fact) => `费用为 ${fact("value")}`,
  tokens: (fact) => `token 数为 ${fact("value")}`,
  turns: (fact) => `轮次为 ${fact("value")}`,
  minutes: (fact) => `用时 ${fact("value")} 分钟`,
  errors: (fact) => `错误数为 ${fact("value")}`,
  threshold: (fact) => `阈值为 ${fact("value")}`,
  above: (fact) => `同时越过了 ${fact("value")}，由那条消息一并通知`,
};

interface Told {
  reason: string | null;
  why: Reason | null;
}

/** The reason as a sentence; what an action failed with stays as it is. */
export function inChinese({ reason, why }: Told): string {
  if (why === null || !(why.code in chinese)) return reason ?? "";
  return chinese[why.code]((name) => String(why.facts[name] ?? "未知"));
}

const sentences = words({ en: { of: (told: Told) => told.reason ?? "" }, zh: { of: inChinese } });

/** Tells a reason; the empty text where there is none. */
export function useReason(): (told: Told) => string {
  return useText(sentences).of;
}

/** For tests. */
export const CHINESE = chinese;
