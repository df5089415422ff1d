/** Texts in English and Chinese, and the language that is shown. */
import { useSyncExternalStore } from "react";

import { remember, remembered } from "./memory";
import { Store } from "./store";

export type Language = "en" | "zh";

/** A text: a string, a function of values, or a group of texts. */
export interface Texts {
  [name: string]: string | ((...values: never[]) => string) | Texts;
}

export interface Words<T> {
  en: T;
  zh: T;
}

/** Texts of a page or part; the Chinese ones have the type of the English ones, so a missing one does not compile. */
export function words<T extends Texts>(both: { en: T; zh: NoInfer<T> }): Words<T> {
  return both;
}

const KEPT = "language";

/** The first language of the browser's list that we have. */
export function preferred(languages: readonly string[]): Language {
  for (const tag of languages) {
    const primary = tag.toLowerCase().split("-")[0];
    if (primary === "zh" || primary === "en") return primary;
  }
  return "en";
}

function initial(): Language {
  const kept = remembered(KEPT);
  if (kept === "en" || kept === "zh") return kept;
  return preferred(typeof navigator === "undefined" ? [] : navigator.languages);
}

const language = new Store<Language>(initial());

/** Shows everything in this language from now on, also after the page was closed. */
export function setLanguage(next: Language): void {
  remember(KEPT, next);
  language.set(next);
  applyLanguage();
}

/** Sets the language of the document for fonts, line breaks and screen readers. */
export function applyLanguage(): void {
  document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
}

export function useLanguage(): Language {
  return useSyncExternalStore(language.subscribe, language.read);
}

/** The title of an application in the language that is shown, or else in that of its catalog. */
export function useTitle(): (app: { title: string; titles: Record<string, string> }) => string {
  const shown = useLanguage();
  return ({ title, titles }) => titles[shown] ?? title;
}

/** The texts in the language that is shown. */
export function useText<T>(texts: Words<T>): T {
  return texts[useLanguage()];
}
