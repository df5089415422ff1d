/** The lines of a unified diff as rows, with the places where lines are left out. */
import type { DiffRow } from "./diff-rows";

export interface DiffHunk {
  /** Its header: `@@ -3,6 +3,7 @@`. */
  header: string;
  rows: DiffRow[];
}

const HEADER = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

/** The hunks of a diff; without `numbered` its line numbers are not those of the file, and are left out. */
export function hunksOf(diff: string, numbered: boolean): DiffHunk[] {
  const found: DiffHunk[] = [];
  let before = 0;
  let after = 0;
  const lines = diff.split("\n");
  if (lines.at(-1) === "") lines.pop();
  for (const line of lines) {
    const header = HEADER.exec(line);
    if (header) {
      before = Number(header[1]);
      after = Number(header[2]);
      found.push({ header: line, rows: [] });
      continue;
    }
    const hunk = found.at(-1);
    if (!hunk || line.startsWith("\\")) continue;
    const change = line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : null;
    const old = change === "added" ? null : before++;
    const fresh = change === "removed" ? null : after++;
    hunk.rows.push({ change, before: numbered ? old : null, after: numbered ? fresh : null, text: line.slice(1) });
  }
  return found;
}
