/** Tokens and money of a session, a day, a model. */
import type { Bill } from "../api/shapes";
import type { Format } from "../format";
import { useFormat } from "../format";
import { useText } from "../text";
import styles from "./bill.module.css";
import { Facts } from "./layout";
import { text } from "./words";

/** Caveats of these numbers. */
export function remarks(bill: Bill, t: (typeof text)["en"], f: Format): string[] {
  const found: string[] = [];
  if (bill.unpriced_tokens) found.push(t.unpriced(f.tokens(bill.unpriced_tokens), bill.unpriced_models.slice(0, 5).join(", ")));
  if (bill.estimated_requests) found.push(t.estimated(f.count(bill.estimated_requests)));
  if (bill.folded_copies) found.push(t.folded(f.count(bill.folded_copies)));
  return found;
}

/** All tokens that were read or written. */
export function allTokens(bill: Bill): number {
  return bill.input_tokens + bill.output_tokens + bill.cache_read_tokens + bill.cache_write_tokens;
}

/** The cost in a few characters; details are in the tooltip, after a hint of the page. */
export function Cost({ bill, hint }: { bill: Bill; hint?: string }) {
  const t = useText(text);
  const f = useFormat();
  const notes = [...(hint ? [hint] : []), ...remarks(bill, t, f)];
  return (
    <span className={styles.cost} data-unsure={bill.unpriced_tokens > 0 || bill.estimated_requests > 0 || undefined} title={notes.join("\n") || undefined}>
      {f.cost(bill)}
    </span>
  );
}

/** All tokens in a few characters; details are in the tooltip. */
export function Tokens({ bill }: { bill: Bill }) {
  const t = useText(text);
  const f = useFormat();
  const parts: [string, number][] = [
    [t.input, bill.input_tokens],
    [t.cacheRead, bill.cache_read_tokens],
    [t.cacheWrite, bill.cache_write_tokens],
    [t.output, bill.output_tokens],
  ];
  const hint = parts.map(([name, count]) => `${name}: ${f.count(count)}`).join("\n");
  return <span title={hint}>{f.tokens(allTokens(bill))}</span>;
}

/** The whole bill with its remarks. */
export function BillFacts({ bill }: { bill: Bill }) {
  const t = useText(text);
  const f = useFormat();
  const notes = remarks(bill, t, f);
  return (
    <div>
      <Facts
        facts={[
          [t.cost, <Cost key="cost" bill={bill} />],
          [t.input, f.count(bill.input_tokens)],
          [t.cacheRead, f.count(bill.cache_read_tokens)],
          [t.cacheWrite, f.count(bill.cache_write_tokens)],
          [t.output, f.count(bill.output_tokens)],
          [t.reasoning, bill.reasoning_tokens ? f.count(bill.reasoning_tokens) : undefined],
          [t.requests, f.count(bill.requests)],
        ]}
      />
      {notes.length > 0 && (
        <ul className={styles.notes}>
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </div>
  );
}
