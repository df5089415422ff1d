/** What became of spans, in the order in which it is shown. */
import type { Tone } from "../../parts";

export const SHOWN = ["acknowledged", "queued", "sending", "refused", "unknown", "dropped", "late"] as const;
export type Shown = (typeof SHOWN)[number];

/** Those that can be listed: of acknowledged spans there are too many to be of interest. */
export const LISTED = ["queued", "sending", "refused", "unknown", "dropped", "late"] as const;
export type Listed = (typeof LISTED)[number];

/** Parts of the bar; spans that changed late are among the acknowledged ones. */
export const PARTS: readonly { state: Shown; tone: Tone; pending?: boolean }[] = [
  { state: "acknowledged", tone: "accent" },
  { state: "queued", tone: "working", pending: true },
  { state: "sending", tone: "working" },
  { state: "refused", tone: "failed" },
  { state: "unknown", tone: "waiting" },
  { state: "dropped", tone: "plain" },
];

export function isListed(state: Shown): state is Listed {
  return state !== "acknowledged";
}
