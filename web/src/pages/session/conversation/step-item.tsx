/** A model call: thinking, answer, tokens and duration. */
import { useFormat } from "../../../format";
import { Badge, ModelName } from "../../../parts";
import { useText } from "../../../text";
import { useTexts } from "../data/use-texts";
import { useSessionTools } from "../session-context";
import { Duration, Mark, SpanCost } from "../span-words";
import { text } from "../text";
import styles from "./conversation.module.css";
import type { ItemProps } from "./item";
import { NoReason, Pieces } from "./pieces";
import { Skeleton } from "./skeleton";
import { text as ownText } from "./text";

export function StepItem({ spans, row }: ItemProps) {
  const { table } = spans;
  const id = table.ids[row] ?? "";
  const pieces = useTexts(id);
  const [inner, outer] = turnsAround(spans, row);
  const around = [...(useTexts(inner) ?? []), ...(useTexts(outer) ?? [])];
  const asked = around.map((piece) => piece.kind === "prompt" && piece.text);
  const told = [...(pieces ?? []), ...around].some((piece) => piece.kind === "error");
  return (
    <>
      <StepHead spans={spans} row={row} />
      {pieces === undefined ? (
        <Skeleton lines={2} />
      ) : (
        // If a model call has its prompt, its turn often has the same.
        <Pieces span={id} pieces={pieces.filter((piece) => piece.kind !== "prompt" || !asked.includes(piece.text))} />
      )}
      {pieces && !told && table.statusOf(row) === "error" && <NoReason />}
    </>
  );
}

/** The innermost and the outermost turn of a span; "" if there is none. */
function turnsAround({ table }: ItemProps["spans"], row: number): [string, string] {
  const turns = [...table.order.ancestors(row)].filter((up) => table.kindOf(up) === "turn").map((up) => table.ids[up] ?? "");
  return [turns[0] ?? "", turns.at(-1) ?? ""];
}

function StepHead({ spans, row }: ItemProps) {
  const t = useText(text);
  const own = useText(ownText);
  const f = useFormat();
  const tools = useSessionTools();
  const { table } = spans;
  const input = table.input[row] ?? Number.NaN;
  return (
    <div className={styles.stepHead}>
      <span className={styles.role} data-role="assistant">
        {own.roles.assistant}
      </span>
      <button type="button" className={styles.title} onClick={() => tools.details(table.ids[row] ?? "")}>
        {table.models[row] ? <ModelName id={table.models[row]} /> : t.modelCall}
      </button>
      {table.unlogged(row) && <Badge title={t.notInLogHint}>{t.notInLog}</Badge>}
      <Mark table={table} row={row} />
      <span className={styles.when}>{f.timeOfDay(table.start[row] ?? null)}</span>
      <span className={styles.sums}>
        {!Number.isNaN(input) && (
          <>
            <span>
              {f.tokens(input)} {t.tokensIn}
            </span>
            <span>
              {f.tokens(table.output[row] || 0)} {t.tokensOut}
            </span>
          </>
        )}
        <span className={styles.money}>
          <SpanCost table={table} row={row} />
        </span>
        <span>
          <Duration table={table} row={row} />
        </span>
      </span>
    </div>
  );
}
