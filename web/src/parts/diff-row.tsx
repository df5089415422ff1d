/** One line of a comparison. */
import { useText } from "../text";
import type { DiffRow } from "./diff-rows";
import styles from "./diff-view.module.css";
import { beginning, visible } from "./text";
import { text } from "./words";

const LINE_MOST = 2000;

export function Row({ row }: { row: DiffRow }) {
  const t = useText(text);
  const sign = row.change === "added" ? "+" : row.change === "removed" ? "−" : "";
  return (
    <tr className={row.change ? styles[row.change] : undefined}>
      <td className={styles.number}>{row.before}</td>
      <td className={styles.number}>{row.after}</td>
      <td className={styles.sign}>
        <span aria-hidden="true">{sign}</span>
        {row.change && <span className="unseen">{t[row.change]}</span>}
      </td>
      <td dir="auto">{visible(beginning(row.text, LINE_MOST)) + (row.text.length > LINE_MOST ? "…" : "")}</td>
    </tr>
  );
}
