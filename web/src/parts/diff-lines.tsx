/** Two texts compared line by line, with long stretches without a change folded. */
import { diffLines } from "diff";
import { useMemo, useState } from "react";

import { useFormat } from "../format";
import { useText } from "../text";
import { Button } from "./button";
import { Code } from "./code";
import styles from "./diff-view.module.css";
import { Row } from "./diff-row";
import type { DiffRow } from "./diff-rows";
import { folded, rowsOf } from "./diff-rows";
import { text } from "./words";

interface DiffLinesProps {
  before: string;
  after: string;
  numbered: boolean;
  label: string;
}

const ROWS_MOST = 2000;

export default function DiffLines({ before, after, numbered, label }: DiffLinesProps) {
  const t = useText(text);
  const changes = useMemo(() => diffLines(before, after, { timeout: 1000 }), [before, after]);
  if (!changes) {
    return (
      <>
        <p className="faint">{t.diffTooBig}</p>
        <Code text={after} label={label} />
      </>
    );
  }
  return <Rows rows={rowsOf(changes, numbered)} label={label} />;
}

function Rows({ rows, label }: { rows: DiffRow[]; label: string }) {
  const t = useText(text);
  const f = useFormat();
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const [most, setMost] = useState(ROWS_MOST);
  const blocks = useMemo(() => folded(rows), [rows]);
  let left = most;
  const shownBlocks = blocks.flatMap((block) => {
    if (left <= 0) return [];
    if (block.fold && !opened.has(block.start)) return [{ ...block, closed: true }];
    const rows = block.rows.slice(0, left);
    left -= rows.length;
    return [{ ...block, rows, closed: false }];
  });
  return (
    // Scrollable by keyboard.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className={styles.diff} tabIndex={0} role="group" aria-label={label}>
      <table aria-label={label}>
        <tbody>
          {shownBlocks.map((block) =>
            block.closed ? (
              <tr key={block.start}>
                <td colSpan={4}>
                  <Button small tone="quiet" onClick={() => setOpened(new Set([...opened, block.start]))}>
                    {t.fold(f.count(block.rows.length))}
                  </Button>
                </td>
              </tr>
            ) : (
              block.rows.map((row, index) => <Row key={block.start + index} row={row} />)
            ),
          )}
        </tbody>
      </table>
      {left <= 0 && (
        <Button small tone="quiet" onClick={() => setMost(most * 3)}>
          {t.more}
        </Button>
      )}
    </div>
  );
}
