/** Texts of the empty page and of demo data. */
import { words } from "../text";

export const text = words({
  en: {
    nothing: "Nothing is recorded yet",
    nothingYet: "The recorder is running; no agent has written a log yet",
    recordingNote: "Use an agent on this machine: its session appears here automatically.",
    startNote: "Start recording the agents on this machine:",
    checkoutNote: "In a checkout of AgentTrace: make up",
    demoNote: "Or look around with demo data: sessions of six agents from the last two weeks. You can remove them at any time.",
    askAdmin: "An admin can load demo data here.",
    load: "Load demo data",
    remove: "Remove demo data",
    loaded: "Demo sessions are loaded: they are marked “demo”, and neither exported nor counted in budgets.",
    removing: "The demo sessions are being removed.",
    done: "The demo sessions are removed.",
  },
  zh: {
    nothing: "还没有任何记录",
    nothingYet: "记录器正在运行，但还没有智能体写入日志",
    recordingNote: "在本机使用任一智能体，其会话会自动出现在这里。",
    startNote: "开始记录本机的智能体：",
    checkoutNote: "在 AgentTrace 源码目录中：make up",
    demoNote: "也可以先加载演示数据：六种智能体近两周的会话，可随时移除。",
    askAdmin: "管理员可以在这里加载演示数据。",
    load: "加载演示数据",
    remove: "移除演示数据",
    loaded: "已加载演示会话：带有“演示”标记，不会导出，也不计入预算。",
    removing: "正在移除演示会话。",
    done: "演示会话已移除。",
  },
});
