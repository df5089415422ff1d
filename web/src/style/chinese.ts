/**
 * The bundled Chinese font, for machines without one. Its style sheet is as large as a page, so it comes after the page;
 * the browser loads the files of the font that have characters which are shown and which no font of the system has.
 */

/** After the page itself was loaded. */
const LATER = 1500;

/** Loads the style sheet: at once where the page is in Chinese. */
export function loadChinese(): void {
  const load = () => void import("@fonts/chinese.css").catch(() => {});
  window.setTimeout(load, document.documentElement.lang.startsWith("zh") ? 0 : LATER);
}
