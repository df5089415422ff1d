import { words } from "../../text";

export const text = words({
  en: {
    title: "Log in",
    note: "This console is reached from outside its own machine, so it asks who you are.",
    name: "Name",
    password: "Password",
    enter: "Log in",
    nobody: "There is no user yet",
    howTo: "Somebody with access to the machine adds one there:",
    already: (name: string) => `You are logged in as ${name}.`,
    goOn: "Go on",
    byLink: "The console shows everything your agents read and wrote, so a browser needs its link. Run this on the machine that AgentTrace runs on, and open the link it prints:",
    oldLink: "That link is from an earlier start of AgentTrace and no longer works.",
    forScripts: "Scripts use an API token: agenttrace token create NAME",
    orByName: "Or log in with a name and a password:",
  },
  zh: {
    title: "登录",
    note: "控制台正被本机之外的地址访问，因此需要确认你的身份。",
    name: "用户名",
    password: "密码",
    enter: "登录",
    nobody: "还没有任何用户",
    howTo: "请让能登录这台机器的人在上面添加一个：",
    already: (name: string) => `你已以 ${name} 的身份登录。`,
    goOn: "继续",
    byLink: "控制台会显示你的智能体读写过的一切，因此浏览器需要通过链接进入。请在运行 AgentTrace 的机器上执行以下命令，并打开它给出的链接：",
    oldLink: "该链接来自 AgentTrace 之前的一次启动，已失效。",
    forScripts: "脚本请使用 API 令牌：agenttrace token create NAME",
    orByName: "或使用用户名和密码登录：",
  },
});
