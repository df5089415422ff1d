/** Dark or light: as the system has it, or as was chosen here. */
import { useSyncExternalStore } from "react";

import { remember, remembered } from "./memory";
import { Store } from "./store";

export type Theme = "system" | "light" | "dark";

const KEPT = "theme";

function initial(): Theme {
  const kept = remembered(KEPT);
  return kept === "light" || kept === "dark" ? kept : "system";
}

const theme = new Store<Theme>(initial());
/** The current theme: charts, which draw their own colours, use it. */
const shown = new Store<"light" | "dark">("light");

export function setTheme(next: Theme): void {
  remember(KEPT, next === "system" ? null : next);
  theme.set(next);
  applyTheme();
}

/** Sets the theme of the document; without a choice the style sheet follows the system. */
export function applyTheme(): void {
  const root = document.documentElement;
  if (theme.value === "system") delete root.dataset.theme;
  else root.dataset.theme = theme.value;
  const system = window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  shown.set(theme.value === "system" ? system : theme.value);
}

/** Follows the system from now on. */
export function followSystem(): void {
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
}

export function useTheme(): Theme {
  return useSyncExternalStore(theme.subscribe, theme.read);
}

export function useShownTheme(): "light" | "dark" {
  return useSyncExternalStore(shown.subscribe, shown.read);
}
