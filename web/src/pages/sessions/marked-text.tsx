/** Text of agents with search terms marked. */
import type { Piece } from "../../api/shapes";
import { visible } from "../../parts";

/** The text in parts, those marked that are sought, in whatever case. */
export function piecesOf(text: string, sought: string): Piece[] {
  const [low, wanted] = [text.toLowerCase(), sought.toLowerCase()];
  // Some letters have another length in lower case; then places do not agree, and nothing is marked.
  if (!wanted || low.length !== text.length) return [{ text, hit: false }];
  const pieces: Piece[] = [];
  let end = 0;
  for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, end)) {
    if (at > end) pieces.push({ text: text.slice(end, at), hit: false });
    end = at + wanted.length;
    pieces.push({ text: text.slice(at, end), hit: true });
  }
  if (end < text.length) pieces.push({ text: text.slice(end), hit: false });
  return pieces;
}

export function MarkedText({ pieces, className }: { pieces: readonly Piece[]; className?: string }) {
  return (
    <bdi dir="auto" className={className}>
      {pieces.map((piece, index) =>
        // Pieces have no other name than their place, and they do not change.
        // oxlint-disable-next-line react/no-array-index-key
        piece.hit ? <mark key={index}>{visible(piece.text)}</mark> : <span key={index}>{visible(piece.text)}</span>,
      )}
    </bdi>
  );
}
