/** Texts of saved views. */
import { words } from "../text";

export const text = words({
  en: {
    saved: "Saved views",
    save: "Save view",
    saveAs: "Name",
    saveDo: "Save",
    menu: (name: string) => `Change or share “${name}”`,
    rename: "Rename",
    update: "Save the filters shown",
    share: "Share with all users",
    sharedBy: (owner: string) => `Shared by ${owner}`,
    copyLink: "Copy link",
    linkCopied: "Link copied",
    linkFailed: "The browser does not allow copying.",
    remove: "Delete",
    moved: "The views saved in this browser are now saved on the server.",
  },
  zh: {
    saved: "已保存的视图",
    save: "保存视图",
    saveAs: "名称",
    saveDo: "保存",
    menu: (name) => `修改或共享“${name}”`,
    rename: "重命名",
    update: "保存当前筛选",
    share: "与所有用户共享",
    sharedBy: (owner) => `由 ${owner} 共享`,
    copyLink: "复制链接",
    linkCopied: "链接已复制",
    linkFailed: "浏览器不允许复制。",
    remove: "删除",
    moved: "保存在此浏览器中的视图已移到服务器。",
  },
});
