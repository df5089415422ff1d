/** Splits prompts and answers into text and the JSON that may follow. */
import { parsed } from "../../parts";

export interface Message {
  words: string;
  /** Undefined if there is none. */
  json: unknown;
}

/** At most this many empty lines are checked: text of agents may have any number of them. */
const TRIED = 50;

/** The whole text as JSON, or words, an empty line and JSON, or only words. Numbers and the like are no documents. */
export function messageOf(text: string): Message {
  const whole = documentOf(text);
  if (whole !== undefined) return { words: "", json: whole };
  let at = text.indexOf("\n\n");
  for (let tried = 0; at >= 0 && tried < TRIED; tried += 1, at = text.indexOf("\n\n", at + 1)) {
    const json = documentOf(text.slice(at));
    if (json !== undefined) return { words: text.slice(0, at), json };
  }
  return { words: text, json: undefined };
}

function documentOf(text: string): object | undefined {
  const inside = text.trim();
  // Most texts are not JSON: this check avoids parsing them.
  if (!/^[{[]/.test(inside) || !"}]".includes(inside.slice(-1))) return undefined;
  const value = parsed(inside);
  return typeof value === "object" && value !== null ? value : undefined;
}
