/** Texts of the command that resumes a session. */
import { words } from "../../../text";

export const text = words({
  en: {
    copy: "Copy resume command",
    limits: {
      latest_only: "The agent can only resume its latest session, which may be another one.",
      copy: "The agent can only resume its latest session: this command begins a copy of this one.",
      whole_history: "The agent resumes all chats of this directory, not only this one.",
    },
    directoryGone: "The directory no longer exists on the server's machine.",
  },
  zh: {
    copy: "复制恢复命令",
    limits: {
      latest_only: "该智能体只能恢复它最近的会话，可能不是这一个。",
      copy: "该智能体只能恢复它最近的会话：此命令会从这个会话的副本继续。",
      whole_history: "该智能体会恢复此目录下的全部对话，而不只是这一个。",
    },
    directoryGone: "服务器所在的机器上已没有此目录。",
  },
});
