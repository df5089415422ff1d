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
  },
});
