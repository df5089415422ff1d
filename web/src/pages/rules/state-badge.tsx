/** The state of a firing. */
import type { RuleFiring } from "../../api/shapes";
import type { Tone } from "../../parts";
import { Badge } from "../../parts";
import { useText } from "../../text";
import { text } from "./text";

type State = RuleFiring["state"];
const TONES: Partial<Record<State, Tone>> = { done: "working", failed: "failed", held: "waiting", running: "accent", queued: "accent" };

export function StateBadge({ state }: { state: State }) {
  const t = useText(text);
  return <Badge tone={TONES[state] ?? "plain"}>{t.states[state]}</Badge>;
}
