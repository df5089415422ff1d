/** The start of a turn: its number, its totals, and the prompt. */
import { useFormat } from "../../../format";
import { Icon, Text } from "../../../parts";
import { useText } from "../../../text";
import { useTexts } from "../data/use-texts";
import { countsAsFailure } from "../model/roll-up";
import { useSessionTools } from "../session-context";
import { Duration, Mark, SumCost } from "../span-words";
import { text } from "../text";
import styles from "./conversation.module.css";
import type { ItemProps } from "./item";
import { LongPiece } from "./long-piece";
import { Media } from "./media";
import { NoReason, Pieces } from "./pieces";
import { Skeleton } from "./skeleton";
import { text as ownText } from "./text";

export function TurnItem({ spans, row }: ItemProps) {
  const { table } = spans;
  const id = table.ids[row] ?? "";
  const pieces = useTexts(id);
  const t = useText(text);
  const own = useText(ownText);
  const { received } = useSessionTools();
  const asked = pieces?.filter((piece) => piece.kind === "prompt" || piece.kind === "media") ?? [];
  const sums = spans.sums.of(row);
  const failed = table.statusOf(row) === "error" && sums.errors <= 1 && countsAsFailure(table, row);
  return (
    <>
      <TurnHead spans={spans} row={row} />
      {pieces === undefined && <Skeleton lines={1} />}
      {asked.length > 0 && (
        <div className={styles.prompt}>
          <span className={styles.role} data-role="user">
            {table.nested(row) ? own.roles.agent : own.roles.user}
          </span>
          {asked.map((piece) =>
            piece.media ? (
              <Media key={piece.index} info={piece.media} />
            ) : (
              <LongPiece key={piece.index} span={id} piece={piece} label={t.prompt} as="prose" />
            ),
          )}
        </div>
      )}
      {pieces && (
        <Pieces
          span={id}
          pieces={pieces.filter((piece) => !asked.includes(piece))}
          foldAnswers={received && sums.steps > 0}
        />
      )}
      {pieces && failed && !pieces.some((piece) => piece.kind === "error") && <NoReason />}
    </>
  );
}

function TurnHead({ spans, row }: ItemProps) {
  const t = useText(text);
  const f = useFormat();
  const tools = useSessionTools();
  const { table } = spans;
  const id = table.ids[row] ?? "";
  const sums = spans.sums.of(row);
  const number = f.count((table.turn[row] ?? 0) + 1);
  const title = table.titleOf(row);
  const open = tools.isOpen("spans", id, true);
  return (
    <div className={styles.turnHead}>
      <button
        type="button"
        className={styles.fold}
        aria-expanded={open}
        aria-label={open ? t.close : t.open}
        onClick={() => tools.toggle("spans", id, !open)}
      >
        <Icon name={open ? "down" : "right"} size={12} />
      </button>
      <h2>
        <button type="button" className={styles.title} onClick={() => tools.details(id)}>
          {table.inner(row) ? <Text>{title}</Text> : table.nested(row) ? t.subagentTurn(number) : t.turn(number)}
        </button>
      </h2>
      {!table.inner(row) && title !== "" && <Text className={styles.glimpse}>{title}</Text>}
      <Mark table={table} row={row} />
      <span className={styles.when}>{f.timeOfDay(table.start[row] ?? null)}</span>
      <span className={styles.sums} title={`${t.sum}\n${t.sumOf(f.count(sums.steps), f.count(sums.tools))}`}>
        <span className={styles.sign} aria-label={t.sum} role="img">
          Σ
        </span>
        {sums.errors > 0 && <span className={styles.errors}>{t.errorCount(f.count(sums.errors))}</span>}
        <span>
          {f.tokens(sums.input)} {t.tokensIn}
        </span>
        <span>
          {f.tokens(sums.output)} {t.tokensOut}
        </span>
        <span className={styles.money}>
          <SumCost sums={sums} />
        </span>
        <span>
          <Duration table={table} row={row} />
        </span>
      </span>
    </div>
  );
}
