/** The names of the columns; a press on one orders the list by it. */
import { Icon } from "../../parts";
import { useText } from "../../text";
import type { SortBy, View } from "./filters";
import styles from "./session-item.module.css";
import { text } from "./text";

interface ListHeadProps {
  view: View;
  onSort: (sort: SortBy, order: View["order"]) => void;
  /** With a column for person and machine. */
  team: boolean;
}

export function ListHead({ view, onSort, team }: ListHeadProps) {
  const t = useText(text);
  const head = (sort: SortBy) => <SortButton sort={sort} view={view} onSort={onSort} />;
  return (
    <div className={styles.heads} data-team={team || undefined} role="group" aria-label={t.sortBy}>
      <span>{t.heads.state}</span>
      <span>{t.heads.title}</span>
      <span>{t.heads.agent}</span>
      {team && <span>{t.heads.team}</span>}
      <span>{head("last")}</span>
      <span className={styles.end} data-column="turns">{head("turns")}</span>
      <span className={styles.end} data-column="tools">{t.heads.tools}</span>
      <span className={styles.end}>{head("errors")}</span>
      <span className={styles.end} data-column="changes">{head("changes")}</span>
      <span className={styles.end}>{head("tokens")}</span>
      <span className={styles.end}>{head("cost")}</span>
    </div>
  );
}

function SortButton({ sort, view, onSort }: Omit<ListHeadProps, "team"> & { sort: SortBy }) {
  const t = useText(text);
  const on = view.sort === sort;
  const down = view.order === "desc";
  return (
    <button
      type="button"
      data-on={on || undefined}
      aria-pressed={on}
      onClick={() => onSort(sort, on && down ? "asc" : "desc")}
    >
      {t.sorts[sort]}
      {on && <Icon name={down ? "down" : "up"} size={10} />}
      {on && <span className="unseen">, {down ? t.sortedDown : t.sortedUp}</span>}
    </button>
  );
}
