/** Texts of the conversation. */
import { words } from "../../../text";

export const text = words({
  en: {
    media: {
      families: { image: "Picture", video: "Video", audio: "Sound" },
      open: "Open the picture",
      comma: ", ",
      problems: {
        elsewhere: "not in the log",
        too_large: "too large to show",
        unsafe: "not shown: this format can hold programs",
        unknown_type: "not shown: unknown format",
        damaged: "damaged",
        no_picture: "not shown",
      },
    },
    roles: { user: "User", agent: "Agent", assistant: "Assistant", tool: "Tool", system: "System" },
    noReason: "Failed. The log gives no reason.",
    command: "Command",
    moreArguments: "Show all arguments",
  },
  zh: {
    media: {
      families: { image: "图片", video: "视频", audio: "音频" },
      open: "打开图片",
      comma: "，",
      problems: {
        elsewhere: "不在日志中",
        too_large: "过大，无法显示",
        unsafe: "不显示：此格式可包含程序",
        unknown_type: "不显示：格式未知",
        damaged: "已损坏",
        no_picture: "不显示",
      },
    },
    roles: { user: "用户", agent: "智能体", assistant: "助手", tool: "工具", system: "系统" },
    noReason: "失败。日志中没有原因。",
    command: "命令",
    moreArguments: "显示全部参数",
  },
});
