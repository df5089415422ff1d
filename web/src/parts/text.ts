/** Makes text of agents and users safe to display: characters that hide or reorder text become visible. */

// Marks and controls of writing direction; invisible separators and fillers; controls but for tab and line ends; halves
// of surrogate pairs. Joiners (U+200C, U+200D) stay: emoji and many scripts need them.
const UNSEEN =
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
// "Tags" spell invisible ASCII that models can read.
const TAGS = /[\u{e0000}-\u{e007f}]+/gu;

/** The text with everything invisible made visible: `⟦U+202E⟧` for a change of direction, `␛` for an escape. */
export function visible(text: string): string {
  return text.replace(UNSEEN, shown).replace(TAGS, spelled);
}

function shown(character: string): string {
  const code = character.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "␡";
  return `⟦U+${code.toString(16).toUpperCase().padStart(4, "0")}⟧`;
}

function spelled(tags: string): string {
  const letters = [...tags].map((tag) => String.fromCharCode(Math.max((tag.codePointAt(0) ?? 0) - 0xe0000, 0x20)));
  return `⟦U+E0000 ${letters.join("")}⟧`;
}

/** The beginning of a text, never half of a surrogate pair. */
export function beginning(text: string, chars: number): string {
  if (text.length <= chars) return text;
  const last = text.charCodeAt(chars - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? chars - 1 : chars);
}
