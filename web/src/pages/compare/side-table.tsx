/** A table that stays one on narrow screens: both sessions must be seen side by side. */
import type { ReactNode } from "react";

import styles from "./compare.module.css";

export interface SideColumn<T> {
  title: string;
  cell: (row: T) => ReactNode;
}

interface SideTableProps<T> {
  label: string;
  /** The first one names a row; the others are figures. */
  columns: readonly SideColumn<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
}

export function SideTable<T>({ label, columns, rows, rowKey }: SideTableProps<T>) {
  const [name, ...figures] = columns;
  return (
    <table className={styles.sides} aria-label={label}>
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column.title} scope="col">
              {column.title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={rowKey(row)}>
            <th scope="row">{name?.cell(row)}</th>
            {figures.map((column) => (
              <td key={column.title}>
                {column.cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
