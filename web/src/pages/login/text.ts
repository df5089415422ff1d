import { words } from "../../text";

export const text = words({
  en: {
    title: "Log in",
    note: "You are connecting from another machine. Log in to continue.",
    name: "Name",
    password: "Password",
    enter: "Log in",
    nobody: "No users yet",
    howTo: "Add one on the machine that AgentTrace runs on:",
    already: (name: string) => `You are logged in as ${name}.`,
    goOn: "Continue",
    byLink: "The console shows everything your agents read and wrote. To open it, run this command on the machine that AgentTrace runs on, and follow the link it prints:",
    oldLink: "This link is from an earlier start of AgentTrace and has expired.",
    forScripts: "Scripts use an API token: agenttrace token create NAME",
    orByName: "Or log in with name and password:",
  },
  zh: {
    title: "登录",
    note: "你正在从另一台机器访问，请先登录。",
    name: "用户名",
    password: "密码",
    enter: "登录",
    nobody: "还没有用户",
    howTo: "请在运行 AgentTrace 的机器上添加一个：",
    already: (name: string) => `你已以 ${name} 的身份登录。`,
    goOn: "继续",
    byLink: "控制台会显示智能体读写过的一切内容。要打开它，请在运行 AgentTrace 的机器上执行以下命令，并打开它输出的链接：",
    oldLink: "该链接来自 AgentTrace 之前的一次启动，已失效。",
    forScripts: "脚本请使用 API 令牌：agenttrace token create NAME",
    orByName: "或使用用户名和密码登录：",
  },
});
