/** Another span of an instrumented program, on one line: name, input, duration. */
import { Icon, StateMark, Text } from "../../../parts";
import { useText } from "../../../text";
import { useTexts } from "../data/use-texts";
import { summaryOf } from "../model/call-arguments";
import { useSessionTools } from "../session-context";
import { Duration } from "../span-words";
import { text } from "../text";
import styles from "./conversation.module.css";
import type { ItemProps } from "./item";
import { Pieces } from "./pieces";

export function SpanItem({ spans, row }: ItemProps) {
  const { table } = spans;
  const id = table.ids[row] ?? "";
  const pieces = useTexts(id);
  const asked = pieces?.find((piece) => piece.kind === "arguments");
  const tools = useSessionTools();
  return (
    <>
      <div className={styles.spanHead}>
        <Fold spans={spans} row={row} />
        {table.statusOf(row) !== "ok" && <StateMark state={table.statusOf(row)} bare />}
        <button type="button" className={styles.title} onClick={() => tools.details(id)}>
          <Text>{table.titleOf(row)}</Text>
        </button>
        {asked && (
          <Text mono className={styles.glimpse} none="">
            {summaryOf(asked.text)}
          </Text>
        )}
        <span className={styles.sums}>
          <Duration table={table} row={row} />
        </span>
      </div>
      {pieces && <Pieces span={id} pieces={pieces.filter((piece) => piece.kind === "error")} />}
    </>
  );
}

function Fold({ spans, row }: ItemProps) {
  const t = useText(text);
  const tools = useSessionTools();
  const { table } = spans;
  const id = table.ids[row] ?? "";
  if (!table.order.opens(row)) return <span className={styles.fold} />;
  const open = tools.isOpen("spans", id, true);
  return (
    <button
      type="button"
      className={styles.fold}
      aria-expanded={open}
      aria-label={open ? t.close : t.open}
      onClick={() => tools.toggle("spans", id, !open)}
    >
      <Icon name={open ? "down" : "right"} size={12} />
    </button>
  );
}
