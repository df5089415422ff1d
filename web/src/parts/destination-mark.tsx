/** How sending to a destination goes: a shape, a colour and a word. */
import type { Destination } from "../api/shapes";
import { useText } from "../text";
import { StateMark } from "./state-mark";
import { text } from "./words";

const LOOKS: Record<Destination["state"], string> = {
  idle: "ok",
  sending: "working",
  confirming: "working",
  waiting: "rate_limited",
  paused: "pending",
  unused: "warn",
  stopped: "warn",
  removed: "cancelled",
};

export function DestinationMark({ state }: { state: Destination["state"] }) {
  const t = useText(text);
  return <StateMark state={LOOKS[state]} label={t.destinations[state]} />;
}
