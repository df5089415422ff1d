/** The parts of a context as they are drawn. */
import type { RequestRow } from "../../../api/shapes";

export const PARTS = ["system", "tools", "context", "files", "results", "user", "assistant", "thinking"] as const;

export type PartName = (typeof PARTS)[number];

/** The size of a part; null where the log does not have it. Arguments of tools are drawn with the answers. */
export function sizeOf(row: RequestRow, part: PartName): number | null {
  const size = row.parts[part];
  if (part !== "assistant" || size === undefined) return size ?? null;
  return size + (row.parts["arguments"] ?? 0);
}

/** The streams of some calls, the main one first. */
export function streamsOf(rows: readonly RequestRow[]): string[] {
  const found = [...new Set(rows.map((row) => row.stream))];
  return found.sort((one, other) => Number(other === "main") - Number(one === "main"));
}

/** The calls that lost most of the cache, in their order. */
export function largest(rows: readonly RequestRow[], most: number): RequestRow[] {
  const kept = new Set([...rows].sort((one, other) => other.cache_lost_tokens - one.cache_lost_tokens).slice(0, most));
  return rows.filter((row) => kept.has(row));
}

/** The parts that the log has of some of the calls: the others are not drawn, and not in the legend. */
export function knownParts(rows: readonly RequestRow[]): PartName[] {
  return PARTS.filter((part) => rows.some((row) => sizeOf(row, part) !== null));
}

/** Where the sizes of all these calls are known from; null if that differs. */
export function commonSource(rows: readonly RequestRow[]): RequestRow["known_from"] | null {
  const [first, ...others] = new Set(rows.map((row) => row.known_from));
  return first === undefined || others.length > 0 ? null : first;
}
