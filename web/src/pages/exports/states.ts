/** What became of spans, in the order in which it is shown. */
import type { Destination } from "../../api/shapes";
import type { Tone } from "../../parts";

export const SHOWN = ["acknowledged", "queued", "refused", "unknown", "dropped", "late"] as const;
export type Shown = (typeof SHOWN)[number];

/** Those that can be listed: of acknowledged spans there are too many to be of interest. */
export const LISTED = ["queued", "refused", "unknown", "dropped", "late"] as const;
export type Listed = (typeof LISTED)[number];

/** Parts of the bar; spans that changed late are among the acknowledged ones. */
export const PARTS: readonly { state: Shown; tone: Tone; pending?: boolean }[] = [
  { state: "acknowledged", tone: "accent" },
  { state: "queued", tone: "working", pending: true },
  { state: "refused", tone: "failed" },
  { state: "unknown", tone: "waiting" },
  { state: "dropped", tone: "plain" },
];

/** How many spans that are; what is on its way counts as queued until it is answered for. */
export function countOf(row: Destination, state: Shown): number {
  return state === "queued" ? row.queued + row.sending : row[state];
}

export function isListed(state: Shown): state is Listed {
  return state !== "acknowledged";
}
