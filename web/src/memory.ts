/** Values stored in the browser between visits; without storage the page still works. */

const PREFIX = "agenttrace.";

export function remembered(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

/** Stores a text; null removes it. */
export function remember(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    // Storage is full or forbidden: the choice lasts as long as the page.
  }
}
