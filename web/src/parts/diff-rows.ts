/** The lines of a comparison, and which of them are folded away. */

export interface DiffRow {
  change: "added" | "removed" | null;
  before: number | null;
  after: number | null;
  text: string;
}

interface Change {
  value: string;
  added?: boolean;
  removed?: boolean;
}

export interface DiffBlock {
  start: number;
  fold: boolean;
  rows: DiffRow[];
}

/** Lines that are shown around a change. */
const AROUND = 3;

/** The lines of two texts; without `numbered` their numbers are not those of the file, and are left out. */
export function rowsOf(changes: readonly Change[], numbered: boolean): DiffRow[] {
  let before = 0;
  let after = 0;
  return changes.flatMap(({ value, added, removed }) => {
    const lines = value.split("\n");
    // A line end closes the last line and begins no new one.
    if (lines.at(-1) === "") lines.pop();
    return lines.map((text): DiffRow => {
      if (!added) before += 1;
      if (!removed) after += 1;
      const change = added ? "added" : removed ? "removed" : null;
      return { change, before: added || !numbered ? null : before, after: removed || !numbered ? null : after, text };
    });
  });
}

/** The rows in blocks; unchanged rows far from every change are a block that can be folded. */
export function folded(rows: readonly DiffRow[]): DiffBlock[] {
  const near = new Uint8Array(rows.length);
  rows.forEach((row, at) => {
    if (row.change) near.fill(1, Math.max(at - AROUND, 0), at + AROUND + 1);
  });
  const blocks: DiffBlock[] = [];
  rows.forEach((row, at) => {
    const fold = near[at] === 0;
    const last = blocks.at(-1);
    if (last && last.fold === fold) last.rows.push(row);
    else blocks.push({ start: at, fold, rows: [row] });
  });
  return blocks;
}
