/** A question and its answer. */
import { memo } from "react";
import { Link } from "wouter";

import { useFormat } from "../../format";
import { Button, Code, Elapsed, Icon, Markdown, Text } from "../../parts";
import { useText } from "../../text";
import styles from "./chat.module.css";
import { text } from "./text";
import type { Turn } from "./turns";

interface TurnViewProps {
  turn: Turn;
  /** Puts the question into the box once more. */
  onAgain: (said: string) => void;
}

// Only the last turn grows: the others are not drawn again for each piece of it.
export const TurnView = memo(function TurnView({ turn, onAgain }: TurnViewProps) {
  const t = useText(text);
  const again = turn.state === "broken" || (turn.state === "refused" && !FINAL.has(turn.refusal?.code ?? ""));
  return (
    <li className={styles.turn}>
      <div className={styles.said}>
        <span className="unseen">{t.you}: </span>
        <Code text={turn.said} label={t.you} prose bare />
      </div>
      <div className={styles.answer} aria-busy={turn.state === "answering" || undefined}>
        <span className="unseen">{t.assistant}: </span>
        {turn.answer && <Markdown text={turn.answer} label={t.assistant} />}
        {turn.state === "answering" && <span className={styles.dots} aria-hidden="true" />}
        {turn.state === "done" && <Figures turn={turn} />}
        {turn.state === "stopped" && (
          <p className={styles.figures}>
            {t.stopped} {turn.conversation === null && t.stoppedNew}
          </p>
        )}
        {turn.state === "broken" && <Failure says={t.broken} />}
        {turn.state === "refused" && <Refused turn={turn} />}
        {again && (
          <Button small icon="refresh" onClick={() => onAgain(turn.said)}>
            {t.again}
          </Button>
        )}
      </div>
    </li>
  );
});

function Figures({ turn }: { turn: Turn }) {
  const t = useText(text);
  const f = useFormat();
  const tokens = t.tokens(`${turn.estimated ? "~" : ""}${f.count(turn.tokens)}`);
  return (
    <p className={styles.figures}>
      <span title={turn.estimated ? t.estimated : undefined}>{tokens}</span>
      {turn.conversation !== null && <span>{t.number(turn.conversation)}</span>}
      <span>
        <Elapsed start={new Date(turn.began).toISOString()} end={new Date(turn.ended ?? turn.began).toISOString()} />
      </span>
    </p>
  );
}

function Failure({ says }: { says: string }) {
  return (
    <p className={styles.failure}>
      <Icon name="warn" />
      <Text>{says}</Text>
    </p>
  );
}

/** First the exact message that users get, then its meaning for the operator. */
function Refused({ turn }: { turn: Turn }) {
  const t = useText(text);
  const { code, message } = turn.refusal ?? { code: "", message: "" };
  const meaning = Object.hasOwn(t.meanings, code) ? t.meanings[code] : undefined;
  if (code === "unreachable") return <Failure says={t.unreachable} />;
  return (
    <>
      <Failure says={message} />
      <p className={styles.meaning}>
        {SEEN_BY_USERS.has(code) && `${t.userSees} `}
        {t.code}{" "}
        <code>
          <Text>{code}</Text>
        </code>
        {meaning && `: ${meaning}`} <More code={code} />
      </p>
    </>
  );
}

/** Asking the same once more would end the same. */
const FINAL: ReadonlySet<string> = new Set(["no_conversation", "forbidden", "invalid"]);

/** Codes with a message that users of the real chat get; the others are shown on this page only. */
const SEEN_BY_USERS: ReadonlySet<string> = new Set([
  "auth",
  "timeout",
  "circuit_open",
  "rate_limited",
  "budget_exceeded",
  "upstream",
  "stopping",
  "internal",
]);

function More({ code }: { code: string }) {
  const t = useText(text);
  if (code === "circuit_open" || code === "rate_limited" || code === "budget_exceeded") {
    return <Link href="/guards">{t.toGuards}</Link>;
  }
  if (code === "upstream" || code === "timeout") return <Link href="/runs?tab=calls">{t.calls}</Link>;
  if (code === "auth" || code === "unavailable") return <Link href="/settings?tab=doctor">{t.toDoctor}</Link>;
  return null;
}
