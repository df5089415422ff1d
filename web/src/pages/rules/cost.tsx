/** What a rule's calls of applications cost; why it is unknown is in the tooltip. */
import type { RuleCost } from "../../api/shapes";
import type { Format } from "../../format";
import { useFormat } from "../../format";
import { useText } from "../../text";
import { text } from "./text";

export function Money({ cost }: { cost: RuleCost | null }) {
  const t = useText(text);
  const f = useFormat();
  if (cost === null) return <>–</>;
  return <span title={unknown(cost, t, f).join("\n") || undefined}>{f.cost(cost)}</span>;
}

/** Why a cost is not known, or not all of it. */
export function unknown(cost: RuleCost, t: (typeof text)["en"], f: Format): string[] {
  const found: string[] = [];
  if (cost.unpriced_models.length > 0) {
    found.push(t.unpriced(f.tokens(cost.unpriced_tokens - cost.unrecorded_tokens), cost.unpriced_models.map((name) => name || "?").join(", ")));
  }
  if (cost.unrecorded_tokens > 0) found.push(t.unrecorded(f.tokens(cost.unrecorded_tokens)));
  return found;
}

/** The same in a sentence, for those who cannot point at something. */
export function Unknown({ cost }: { cost: RuleCost | null }) {
  const t = useText(text);
  const f = useFormat();
  if (cost === null) return null;
  return unknown(cost, t, f).map((reason) => (
    <p key={reason} className="faint">
      {reason}
    </p>
  ));
}
