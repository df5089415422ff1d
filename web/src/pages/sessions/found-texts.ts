/** Search results as one list: sessions by title first, then matches in texts, session by session. */
import type { SearchHit, SessionRef, SessionRow } from "../../api/shapes";

export type FoundItem =
  | { kind: "heading"; of: "titles" | "texts"; count: number }
  | { kind: "row"; row: SessionRow }
  | { kind: "all-titles"; count: number }
  | { kind: "session"; session: SessionRef; at: string | null; count: number }
  | { kind: "hit"; hit: SearchHit };

/** The number of titles before the texts. */
export const FEW = 5;

/** Hits by session, in the order in which the sessions come first: newest first, as hits are. */
export function bySession(hits: readonly SearchHit[]): SearchHit[][] {
  const groups = new Map<string, SearchHit[]>();
  for (const hit of hits) {
    const group = groups.get(hit.session.key);
    if (group) group.push(hit);
    else groups.set(hit.session.key, [hit]);
  }
  return [...groups.values()];
}

export function foundItems(rows: readonly SessionRow[], total: number, hits: readonly SearchHit[]): FoundItem[] {
  const items: FoundItem[] = [];
  if (rows.length > 0) {
    items.push({ kind: "heading", of: "titles", count: total });
    for (const row of rows.slice(0, FEW)) items.push({ kind: "row", row });
    if (total > FEW) items.push({ kind: "all-titles", count: total });
  }
  items.push({ kind: "heading", of: "texts", count: hits.length });
  for (const group of bySession(hits)) {
    const [first] = group;
    if (!first) continue;
    items.push({ kind: "session", session: first.session, at: first.at, count: group.length });
    for (const hit of group) items.push({ kind: "hit", hit });
  }
  return items;
}

export function itemKey(item: FoundItem): string {
  switch (item.kind) {
    case "heading":
      return `heading ${item.of}`;
    case "row":
      return `row ${item.row.key}`;
    case "session":
      return `session ${item.session.key}`;
    case "hit":
      return `hit ${item.hit.event_no}`;
    default:
      return item.kind;
  }
}
