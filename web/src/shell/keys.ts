/** Which shortcut a key press means: single keys, and two keys one after the other like `g s`. */

export interface Shortcut {
  /** `j`, `?`, `Escape`, `ArrowDown`, or a sequence with a space: `g s`. Upper case letters want Shift. */
  keys: string;
  /** The description in the help. */
  does: string;
  run: () => void;
  /** Not in the help: an alternative key for the same action. */
  hidden?: boolean;
}

/** How long the first key of a sequence is valid, in milliseconds. */
const PATIENCE = 1500;

export class KeyReader {
  private first: string | null = null;
  private at = 0;

  /** The shortcut that is complete with this key; of several the last one, for pages come after the shell. */
  press(key: string, now: number, shortcuts: readonly Shortcut[]): Shortcut | null {
    const before = this.first !== null && now - this.at < PATIENCE ? this.first : null;
    this.first = null;
    const sequence = before === null ? null : shortcuts.findLast((shortcut) => shortcut.keys === `${before} ${key}`);
    const found = sequence ?? shortcuts.findLast((shortcut) => shortcut.keys === key);
    if (found) return found;
    if (shortcuts.some((shortcut) => shortcut.keys.startsWith(`${key} `))) {
      this.first = key;
      this.at = now;
    }
    return null;
  }
}

/** Whether the focused element accepts text, so that keys must not trigger actions. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button", "range"].includes(target.type);
}

/** Keys that the focused element uses itself: Enter follows a link or presses a button, arrows scroll a long text. */
export function isItsOwn(key: string, target: EventTarget | null): boolean {
  if (!(target instanceof Element)) return false;
  if (key === "Enter" || key === " ") return target.matches("a[href], button, summary, input");
  return key.startsWith("Arrow") && target.matches("pre[tabindex]");
}
