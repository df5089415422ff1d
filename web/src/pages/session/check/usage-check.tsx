/** Whether our count of a session agrees with the agent's own total. */
import type { CheckReason, UsageCheck } from "../../../api/shapes";
import { useFormat } from "../../../format";
import { Badge, visible } from "../../../parts";
import { useText } from "../../../text";
import { text } from "./text";

const TONES = { agree: "plain", differ: "failed", nothing: "plain" } as const;

/** One of the figures of a session. */
export function UsageCheckFigure({ check }: { check: UsageCheck }) {
  const t = useText(text);
  return (
    <div>
      {/* "not checked" says it all. */}
      <dt className={check.status === "nothing" ? "unseen" : undefined}>{t.name}</dt>
      <dd>
        <Badge tone={TONES[check.status]} title={useSentences(check).join("\n")}>
          {t.status[check.status]}
        </Badge>
      </dd>
    </div>
  );
}

function useSentences(check: UsageCheck): string[] {
  const t = useText(text);
  const f = useFormat();
  const unlogged = Object.values(check.unlogged).reduce((sum, tokens) => sum + tokens, 0);
  const reason = ({ kind, number, name }: CheckReason): string =>
    kind === "missing" ? t.reasons.missing(visible(name)) : kind === "unknown" ? t.reasons.unknown : t.reasons[kind](f.count(number));
  return [
    check.status === "nothing" ? t.nothing : t.checked(f.count(check.checked)),
    ...Object.entries(check.difference)
      .filter(([, tokens]) => tokens !== 0)
      .map(([kind, tokens]) => t.difference(kind in t.kinds ? t.kinds[kind as keyof typeof t.kinds] : kind, f.count(Math.abs(tokens)), tokens > 0)),
    ...(unlogged > 0 ? [t.unlogged(f.count(unlogged))] : []),
    ...check.reasons.map(reason),
  ];
}
