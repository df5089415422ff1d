/** The hunks of a unified diff, a part of them at a time. */
import { Fragment, useMemo, useState } from "react";

import { useText } from "../text";
import { Button } from "./button";
import { Row } from "./diff-row";
import styles from "./diff-view.module.css";
import { hunksOf } from "./unified-diff";
import { visible } from "./text";
import { text } from "./words";

const ROWS_MOST = 400;

interface DiffHunksProps {
  diff: string;
  numbered: boolean;
  label: string;
}

export function DiffHunks({ diff, numbered, label }: DiffHunksProps) {
  const t = useText(text);
  const [most, setMost] = useState(ROWS_MOST);
  const hunks = useMemo(() => hunksOf(diff, numbered), [diff, numbered]);
  let left = most;
  return (
    // Scrollable by keyboard.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className={styles.diff} tabIndex={0} role="group" aria-label={label}>
      <table aria-label={label}>
        <tbody>
          {hunks.map((hunk, index) => {
            const rows = hunk.rows.slice(0, Math.max(left, 0));
            left -= hunk.rows.length;
            return rows.length === 0 ? null : (
              // The hunks of a diff do not change.
              // oxlint-disable-next-line react/no-array-index-key
              <Fragment key={index}>
                {(numbered || index > 0) && (
                  <tr>
                    <td colSpan={4} className={styles.header}>
                      {numbered ? visible(hunk.header) : "⋯"}
                    </td>
                  </tr>
                )}
                {rows.map((row, at) => (
                  // oxlint-disable-next-line react/no-array-index-key
                  <Row key={at} row={row} />
                ))}
              </Fragment>
            );
          })}
        </tbody>
      </table>
      {left < 0 && (
        <Button small tone="quiet" onClick={() => setMost(most * 5)}>
          {t.more}
        </Button>
      )}
    </div>
  );
}
