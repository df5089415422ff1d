/** By which price a model call was billed, in words. */
import { words } from "../../../text";

export const text = words({
  en: {
    line: (input: string, output: string) => `${input} in, ${output} out`,
    cache: (read: string, write: string) => `${read} cache read, ${write} cache write`,
    above: (tokens: string) => `for prompts above ${tokens} tokens`,
    term: (term: string) => ({ fast: "fast mode", peak: "peak hours" })[term] ?? `inference in ${term}`,
    since: (day: string) => `since ${day}`,
    checked: (source: string, day: string) => `${source} (checked ${day})`,
  },
  zh: {
    line: (input, output) => `输入 ${input}，输出 ${output}`,
    cache: (read, write) => `缓存读取 ${read}，缓存写入 ${write}`,
    above: (tokens) => `提示词超过 ${tokens} 个 token`,
    term: (term) => ({ fast: "快速模式", peak: "高峰时段" })[term] ?? `推理地区 ${term}`,
    since: (day) => `自 ${day} 起`,
    checked: (source, day) => `${source}（核对于 ${day}）`,
  },
});
