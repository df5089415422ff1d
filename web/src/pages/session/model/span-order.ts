/** Spans in reading order: each before its children, siblings by their start. A subtree is a contiguous range. */
import { grown } from "./growing";

/** The columns of a table that its order depends on. */
export interface Ordered {
  readonly length: number;
  readonly ids: readonly string[];
  readonly parentIds: readonly (string | null)[];
  readonly start: Float64Array;
  readonly turn: Int32Array;
  readonly kind: Uint8Array;
  rowOf(id: string | null): number;
}

export class SpanOrder {
  length = 0;
  /** The row at each position, and the position of each row. */
  rows = new Int32Array(0);
  position = new Int32Array(0);
  /** By row: its parent's row or -1, its depth, and the position after its last descendant. */
  parent = new Int32Array(0);
  depth = new Uint16Array(0);
  last = new Int32Array(0);
  /** Parents that are named but not loaded: when one arrives, its children move below it. */
  private readonly missing = new Set<string>();

  constructor(private readonly table: Ordered) {}

  /** Adds the rows from `before` on; returns the first position that has changed. */
  grow(before: number, moved: boolean): number {
    const { table } = this;
    this.reserve(table.start.length);
    const from = this.length;
    // Many at once are put in order all together.
    let anew = moved || before === 0;
    for (let row = before; row < table.length && !anew; row += 1) anew = !this.append(row);
    if (!anew) return from;
    this.rebuild();
    return 0;
  }

  /** Whether a span contains others. */
  opens(row: number): boolean {
    return (this.last[row] ?? 0) > (this.position[row] ?? 0) + 1;
  }

  /** From its parent up. */
  *ancestors(row: number): Generator<number> {
    for (let up = this.parent[row] ?? -1; up >= 0; up = this.parent[up] ?? -1) yield up;
  }

  /** Appends a row at the end, if that is its position. */
  private append(row: number): boolean {
    const { table, length } = this;
    if (this.missing.has(table.ids[row] ?? "")) return false;
    const parent = this.parentOf(row);
    const end = length > 0 ? (this.rows[length - 1] ?? -1) : -1;
    // A parent that has no place yet is not known to be no descendant.
    if (parent >= 0 && !(this.placed(parent) && this.last[parent] === length)) return false;
    // The sibling before it is the one that contains the last row, or is it.
    let sibling = end;
    while (sibling >= 0 && sibling !== parent && this.parent[sibling] !== parent) sibling = this.parent[sibling] ?? -1;
    if (sibling >= 0 && sibling !== parent && compared(table, sibling, row) > 0) return false;
    this.place(row, parent);
    for (let up = parent; up >= 0; up = this.parent[up] ?? -1) this.last[up] = this.length;
    return true;
  }

  private placed(row: number): boolean {
    const at = this.position[row] ?? 0;
    return at < this.length && this.rows[at] === row;
  }

  private place(row: number, parent: number): void {
    this.parent[row] = parent;
    this.depth[row] = parent < 0 ? 0 : (this.depth[parent] ?? 0) + 1;
    this.rows[this.length] = row;
    this.position[row] = this.length;
    this.length += 1;
    this.last[row] = this.length;
  }

  private parentOf(row: number): number {
    const id = this.table.parentIds[row] ?? null;
    const parent = this.table.rowOf(id);
    if (id !== null && parent < 0) this.missing.add(id);
    return parent;
  }

  private rebuild(): void {
    const { table } = this;
    const count = table.length;
    this.missing.clear();
    this.length = 0;
    const [first, next] = this.families();
    const seen = new Uint8Array(count);
    const walk = (root: number) => {
      for (let row = root; row >= 0; row = next[row] ?? -1) if (!seen[row]) this.descend(row, first, next, seen);
    };
    walk(first[count] ?? -1);
    // Whatever is left names itself as its ancestor: it must be seen all the same.
    for (let row = 0; row < count; row += 1) {
      if (seen[row]) continue;
      this.descend(row, first, next, seen);
    }
  }

  /** First children and next siblings, in order; roots are children of `count`. */
  private families(): [Int32Array, Int32Array] {
    const { table } = this;
    const count = table.length;
    const first = new Int32Array(count + 1).fill(-1);
    const next = new Int32Array(count).fill(-1);
    const sorted = byStart(table);
    for (let at = count - 1; at >= 0; at -= 1) {
      const row = sorted[at] ?? 0;
      const parent = this.parentOf(row);
      const home = parent < 0 || parent === row ? count : parent;
      next[row] = first[home] ?? -1;
      first[home] = row;
    }
    return [first, next];
  }

  /** Places a row and its descendants without recursion, because nesting has no limit. */
  private descend(root: number, first: Int32Array, next: Int32Array, seen: Uint8Array): void {
    const path: number[] = [root];
    this.place(root, -1);
    seen[root] = 1;
    let child = first[root] ?? -1;
    while (path.length > 0) {
      while (child >= 0 && seen[child]) child = next[child] ?? -1;
      const parent = path.at(-1) ?? root;
      if (child >= 0) {
        this.place(child, parent);
        seen[child] = 1;
        path.push(child);
        child = first[child] ?? -1;
      } else {
        path.pop();
        this.last[parent] = this.length;
        child = path.length > 0 ? (next[parent] ?? -1) : -1;
      }
    }
  }

  private reserve(room: number): void {
    if (room <= this.rows.length) return;
    this.rows = grown(this.rows, Int32Array, room);
    this.position = grown(this.position, Int32Array, room);
    this.parent = grown(this.parent, Int32Array, room);
    this.depth = grown(this.depth, Uint16Array, room);
    this.last = grown(this.last, Int32Array, room);
  }
}

function compared(table: Ordered, a: number, b: number): number {
  return (
    (table.start[a] ?? 0) - (table.start[b] ?? 0) ||
    (table.turn[a] ?? 0) - (table.turn[b] ?? 0) ||
    (table.kind[a] ?? 0) - (table.kind[b] ?? 0) ||
    a - b
  );
}

/** All rows by their start; the server sends them so, and then there is nothing to sort. */
export function byStart(table: Ordered): Int32Array {
  const rows = Int32Array.from({ length: table.length }, (_, row) => row);
  for (let row = 1; row < table.length; row += 1) {
    if (compared(table, row - 1, row) > 0) return rows.sort((a, b) => compared(table, a, b));
  }
  return rows;
}
