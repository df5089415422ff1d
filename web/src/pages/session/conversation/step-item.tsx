/** A model call: what was thought and said, and what it took. */
import { useFormat } from "../../../format";
import { Text } from "../../../parts";
import { useText } from "../../../text";
import { useTexts } from "../data/use-texts";
import { useSessionTools } from "../session-context";
import { Duration, Mark, SpanCost } from "../span-words";
import { text } from "../text";
import styles from "./conversation.module.css";
import type { ItemProps } from "./item";
import { Pieces } from "./pieces";
import { Skeleton } from "./skeleton";

export function StepItem({ spans, row }: ItemProps) {
  const { table } = spans;
  const id = table.ids[row] ?? "";
  const pieces = useTexts(id);
  return (
    <>
      <StepHead spans={spans} row={row} />
      {pieces === undefined ? <Skeleton lines={2} /> : <Pieces span={id} pieces={pieces} />}
    </>
  );
}

function StepHead({ spans, row }: ItemProps) {
  const t = useText(text);
  const f = useFormat();
  const tools = useSessionTools();
  const { table } = spans;
  const input = table.input[row] ?? Number.NaN;
  return (
    <div className={styles.stepHead}>
      <button type="button" className={styles.title} onClick={() => tools.details(table.ids[row] ?? "")}>
        <Text>{table.models[row] ?? t.modelCall}</Text>
      </button>
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
