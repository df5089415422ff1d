/** Prompts and answers taken apart: words, and the JSON that may follow them. */
import { parsed } from "../../parts";

export interface Message {
  words: string;
  /** Undefined where there is none. */
  json: unknown;
}

/** The whole text as JSON, or words, an empty line and JSON, or only words. Numbers and the like are no documents. */
export function messageOf(text: string): Message {
  const whole = documentOf(text);
  if (whole !== undefined) return { words: "", json: whole };
  for (let at = text.indexOf("\n\n"); at >= 0; at = text.indexOf("\n\n", at + 1)) {
    const rest = text.slice(at).trimStart();
    const json = documentOf(rest);
    if (json !== undefined) return { words: text.slice(0, at), json };
  }
  return { words: text, json: undefined };
}

function documentOf(text: string): object | undefined {
  // Most texts are none: parsing them to find that out would cost.
  if (!/^\s*[{[]/.test(text) || !/[}\]]\s*$/.test(text)) return undefined;
  const value = parsed(text);
  return typeof value === "object" && value !== null ? value : undefined;
}
