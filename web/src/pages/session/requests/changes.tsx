/** What changed at a model call, in words. */
import type { RequestChange, RequestRow } from "../../../api/shapes";
import type { Format } from "../../../format";
import { useFormat } from "../../../format";
import { Badge, visible } from "../../../parts";
import { useText } from "../../../text";
import styles from "./requests.module.css";
import { text } from "./text";

type Words = ReturnType<typeof useText<(typeof text)["en"]>>;

/** Names of tools in one line. */
const MOST = 12;

/** Whether there is something to say of a call. */
export function hasChanges(row: RequestRow): boolean {
  return row.cache_lost_tokens > 0 || row.span_id === null || row.messages_not_in_log > 0 || row.changes.length > 0;
}

export function Changes({ row }: { row: RequestRow }) {
  const t = useText(text);
  const f = useFormat();
  return (
    <span className={styles.changes}>
      {row.cache_lost_tokens > 0 && (
        <Badge tone="failed">
          {t.lost(f.tokens(row.cache_lost_tokens), row.causes.map((cause) => t.causes[cause]).join(", ") || t.unexplained)}
        </Badge>
      )}
      {row.span_id === null && <Badge tone="waiting">{t.notAnswered}</Badge>}
      {row.messages_not_in_log > 0 && <span className="faint">{t.notInLog(f.count(row.messages_not_in_log))}</span>}
      {row.changes.map((change) => (
        <span key={change.kind} title={`${t.columns.known}: ${t.known[change.known_from]}`}>
          {worded(change, t, f)}
        </span>
      ))}
    </span>
  );
}

function worded(change: RequestChange, t: Words, f: Format): string {
  const dropped = f.tokens(Object.values(change.dropped_characters).reduce((sum, size) => sum + size, 0));
  const [before, after] = [visible(change.before ?? "?"), visible(change.after ?? "?")];
  switch (change.kind) {
    case "tools":
      return [t.change.tools, ...signed("+", change.added), ...signed("−", change.removed), ...signed("~", change.changed)].join(" ");
    case "parameters":
      return t.change.parameters(few(change.changed).join(", "));
    case "model":
      return t.change.model(before, after);
    case "system":
      return t.change.system(sized(change.before, f), sized(change.after, f));
    case "shorter":
      return t.change.shorter(sized(change.before, f), sized(change.after, f));
    case "pause":
      return t.change.pause(f.duration((change.pause_seconds ?? 0) * 1000));
    case "messages":
      return t.change.messages(f.count((change.first_message ?? 0) + 1), dropped);
    case "compaction":
      return t.change.compaction(dropped);
  }
}

/** The number of a size with its unit, which the texts name in the reader's language. */
function sized(size: string | null, f: Format): string {
  const number = Number.parseInt(size ?? "", 10);
  return Number.isNaN(number) ? "?" : f.count(number);
}

function signed(sign: string, names: readonly string[]): string[] {
  return few(names).map((name) => (name.startsWith("…") ? name : sign + name));
}

function few(names: readonly string[]): string[] {
  const shown = names.slice(0, MOST).map((name) => visible(name));
  return names.length > MOST ? [...shown, `… ${names.length - MOST}`] : shown;
}
