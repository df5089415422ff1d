/** Texts of the comparison with an agent's own total. */
import { words } from "../../../text";

export const text = words({
  en: {
    name: "check",
    status: { agree: "agrees", differ: "differs", nothing: "not checked" },
    nothing: "Not checked: the log has no total of the agent itself",
    checked: (requests: string) => `Compared with the agent's own total: ${requests} requests`,
    difference: (kind: string, tokens: string, more: boolean) => `${kind}: the agent counts ${tokens} ${more ? "more" : "less"}`,
    unlogged: (tokens: string) => `${tokens} tokens are known only from that total: calls that are not in the log`,
    kinds: { input_tokens: "Input", output_tokens: "Output", cache_read_tokens: "Cache read", cache_write_tokens: "Cache write" },
    reasons: {
      killed: (requests: string) => `${requests} requests of a process that was killed are not in that total`,
      copied: (requests: string) => `${requests} requests copied from another session are not in that total`,
      missing: (name: string) => `The log of ${name} is not recorded`,
      placeholder: (requests: string) => `The log has only a placeholder for the output of ${requests} requests`,
      unread: (lines: string) => `${lines} lines of its files are quarantined`,
      unknown: "Unknown reason",
    },
  },
  zh: {
    name: "核对",
    status: { agree: "一致", differ: "有差异", nothing: "未核对" },
    nothing: "未核对：日志中没有智能体自己的总计",
    checked: (requests) => `已与智能体自己的总计核对：${requests} 次请求`,
    difference: (kind, tokens, more) => `${kind}：智能体的计数${more ? "多" : "少"} ${tokens}`,
    unlogged: (tokens) => `${tokens} 个 token 只在该总计中：日志里没有这些调用`,
    kinds: { input_tokens: "输入", output_tokens: "输出", cache_read_tokens: "缓存读取", cache_write_tokens: "缓存写入" },
    reasons: {
      killed: (requests) => `被终止的进程的 ${requests} 次请求不在该总计中`,
      copied: (requests) => `从其他会话复制来的 ${requests} 次请求不在该总计中`,
      missing: (name) => `没有记录到 ${name} 的日志`,
      placeholder: (requests) => `${requests} 次请求的输出在日志中只有占位数据`,
      unread: (lines) => `其文件中有 ${lines} 行在隔离区`,
      unknown: "原因未知",
    },
  },
});
