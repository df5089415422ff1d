/** Keys that do something: those of the shell, and those that the page that is open adds. */
import { useEffect, useRef, useSyncExternalStore } from "react";

import { Store } from "../store";
import type { Shortcut } from "./keys";
import { KeyReader, isItsOwn, isTyping } from "./keys";

export type { Shortcut } from "./keys";

interface Group {
  of: "shell" | "page";
  shortcuts: readonly Shortcut[];
}

const groups = new Store<readonly Group[]>([]);

/** Adds shortcuts while the component is there; they may be new objects at each rendering. */
export function useShortcuts(shortcuts: readonly Shortcut[], of: Group["of"] = "page"): void {
  const latest = useRef(shortcuts);
  useEffect(() => {
    latest.current = shortcuts;
  });
  const shape = JSON.stringify(shortcuts.map(({ keys, does, hidden }) => [keys, does, hidden]));
  useEffect(() => {
    const group: Group = {
      of,
      shortcuts: latest.current.map((shortcut, index) => ({ ...shortcut, run: () => latest.current[index]?.run() })),
    };
    groups.set(of === "shell" ? [group, ...groups.value] : [...groups.value, group]);
    return () => groups.set(groups.value.filter((other) => other !== group));
  }, [shape, of]);
}

/** The shortcuts to be shown in the help. */
export function useShortcutList(of: Group["of"]): Shortcut[] {
  const all = useSyncExternalStore(groups.subscribe, groups.read);
  return all.filter((group) => group.of === of).flatMap((group) => group.shortcuts.filter(({ hidden }) => !hidden));
}

/** Listens for keys: once, in the shell. */
export function useKeyboard(): void {
  useEffect(() => {
    const reader = new KeyReader();
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      if (isTyping(event.target) || isItsOwn(event.key, event.target) || document.querySelector("dialog:modal")) return;
      const shortcuts = groups.value.flatMap((group) => group.shortcuts);
      const found = reader.press(event.key, event.timeStamp, shortcuts);
      if (!found) return;
      event.preventDefault();
      found.run();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}
