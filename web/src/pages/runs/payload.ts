/** The payload of an event, as typed. */
import { wholeNumber } from "./whole-number";

/** The number of a store or member; undefined for none, and for one that JavaScript would round to another. */
export function idOf(text: string): number | undefined {
  const number = Number(wholeNumber(text) ?? Number.NaN);
  return Number.isSafeInteger(number) ? number : undefined;
}

/** The object that the text is; null for no text, undefined for anything that is no JSON object. */
export function payloadOf(text: string): Record<string, unknown> | null | undefined {
  if (text.trim() === "") return null;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
