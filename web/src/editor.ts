/** The editor that files are opened in, by a link that it registers; only where the browser is on the machine with the files. */
import { useSyncExternalStore } from "react";

import { remember, remembered } from "./memory";
import { Store } from "./store";

export const EDITORS = ["vscode", "cursor", "windsurf", "zed", "idea", "none"] as const;
export type Editor = (typeof EDITORS)[number];

export const EDITOR_NAMES: Record<Exclude<Editor, "none">, string> = {
  vscode: "VS Code",
  cursor: "Cursor",
  windsurf: "Windsurf",
  zed: "Zed",
  idea: "IntelliJ IDEA",
};

const KEPT = "editor";

function known(name: string | null): Editor {
  return EDITORS.find((editor) => editor === name) ?? "vscode";
}

/** Whether a page of this host is seen on the machine that serves it. */
export function isThisMachine(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127(?:\.\d{1,3}){3}$/.test(host);
}

const editor = new Store<Editor>(known(remembered(KEPT)));

export function setEditor(name: string): void {
  const next = known(name);
  remember(KEPT, next);
  editor.set(next);
}

/** The chosen editor; null where the browser is on another machine. */
export function useEditor(): Editor | null {
  const chosen = useSyncExternalStore(editor.subscribe, editor.read);
  return isThisMachine(window.location.hostname) ? chosen : null;
}

/** The link that opens a file; null where it is not known which file that is. */
export function editorLink(editor: Editor | null, path: string, line: number | null = null): string | null {
  if (editor === null || editor === "none") return null;
  const slashed = path.replaceAll("\\", "/");
  const whole = /^[A-Za-z]:\//.test(slashed) ? `/${slashed}` : slashed;
  if (!whole.startsWith("/") || whole.startsWith("//")) return null;
  const encoded = whole.split("/").map(encodeURIComponent).join("/");
  if (editor === "idea") return `idea://open?file=${encoded}${line === null ? "" : `&line=${line}`}`;
  return `${editor}://file${encoded}${line === null ? "" : `:${line}`}`;
}
