/** Rows with named columns; on narrow screens each row is a card. */
import type { ReactNode } from "react";
import { useState } from "react";

import { useFormat } from "../format";
import { useText } from "../text";
import { Button } from "./button";
import { Icon } from "./icon";
import { NARROW, useMedia } from "./media";
import styles from "./table.module.css";
import { text } from "./words";

export interface Column<T> {
  /** Also the name to sort by. */
  name: string;
  /** "" for buttons. */
  title: string;
  cell: (row: T) => ReactNode;
  sortable?: boolean;
  /** Numbers are right-aligned. */
  end?: boolean;
  /** A CSS width. */
  width?: string;
  /** On a card it comes first, large and without its title. */
  lead?: boolean;
  /** Left out on cards. */
  wideOnly?: boolean;
}

export interface Sort {
  by: string;
  order: "asc" | "desc";
}

interface TableProps<T> {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string | number;
  sort?: Sort;
  onSort?: (sort: Sort) => void;
  /** Marks the row that is open elsewhere on the page. */
  chosen?: string | number | null;
  /** A click anywhere in the row; the same must be reachable by a link or button in a cell. */
  onOpen?: (row: T) => void;
  /** Where the columns have no room the table is moved sideways, not the page. */
  scrolls?: boolean;
  /** Below the rows: sums. */
  foot?: (column: Column<T>) => ReactNode;
}

/** So many rows at first where they are cards: each is as high as many rows. */
const CARDS = 10;

export function Table<T>(props: TableProps<T>) {
  const { label, columns, rowKey, chosen, onOpen, foot } = props;
  const [all, setAll] = useState(false);
  const few = useMedia(NARROW) && !all && props.rows.length > CARDS;
  const rows = few ? props.rows.slice(0, CARDS) : props.rows;
  // Roles are explicit because a table that is styled as cards loses its implicit ones.
  return (
    <div className={styles.frame} data-scrolls={props.scrolls}>
      <table className={styles.table} role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <Head key={column.name} column={column} sort={props.sort} onSort={props.onSort} />
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr
              key={rowKey(row)}
              role="row"
              aria-current={chosen !== undefined && chosen === rowKey(row) ? "true" : undefined}
              data-opens={onOpen ? true : undefined}
              onClick={onOpen && ((event) => clickedRow(event.target) && onOpen(row))}
            >
              {columns.map((column) => (
                <td key={column.name} role="cell" className={classes(column)}>
                  {!column.lead && (
                    <span className={styles.name} aria-hidden="true">
                      {column.title}
                    </span>
                  )}
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
        {foot && (
          <tfoot role="rowgroup">
            <tr role="row">
              {columns.map((column) => (
                <td key={column.name} role="cell" className={classes(column)}>
                  {foot(column)}
                </td>
              ))}
            </tr>
          </tfoot>
        )}
      </table>
      {few && <More left={props.rows.length - CARDS} onClick={() => setAll(true)} />}
    </div>
  );
}

function More({ left, onClick }: { left: number; onClick: () => void }) {
  const t = useText(text);
  const f = useFormat();
  return (
    <Button tone="quiet" onClick={onClick}>
      {t.moreItems(f.count(left))}
    </Button>
  );
}

/** Whether a click was for the row: not on a control in it, and not the end of marking text. */
function clickedRow(target: EventTarget): boolean {
  const control = target instanceof Element && target.closest("a, button, input, label, select, summary");
  return !control && window.getSelection()?.type !== "Range";
}

function classes<T>(column: Column<T>): string {
  return [column.end && styles.end, column.lead && styles.lead, column.wideOnly && styles.wideOnly].filter(Boolean).join(" ");
}

interface HeadProps<T> {
  column: Column<T>;
  sort?: Sort;
  onSort?: (sort: Sort) => void;
}

function Head<T>({ column, sort, onSort }: HeadProps<T>) {
  const t = useText(text);
  const by = sort?.by === column.name ? sort.order : null;
  const next = by === "desc" ? "asc" : "desc";
  return (
    <th
      role="columnheader"
      scope="col"
      className={classes(column)}
      style={{ width: column.width }}
      aria-sort={by ? (by === "asc" ? "ascending" : "descending") : undefined}
    >
      {column.sortable && onSort ? (
        <button type="button" onClick={() => onSort({ by: column.name, order: next })}>
          {column.title}
          <span className={styles.arrow} data-on={by ? true : undefined}>
            <Icon name={by === "asc" ? "up" : "down"} size={10} />
          </span>
        </button>
      ) : (
        column.title || <span className="unseen">{t.actions}</span>
      )}
    </th>
  );
}
