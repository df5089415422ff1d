/** Where a text was found in the session. */
import { usePages } from "../../api/queries";
import type { Piece, SearchHit, SearchList } from "../../api/shapes";
import { useFormat } from "../../format";
import { Button, Failed, IconButton, Loading, visible } from "../../parts";
import { useText } from "../../text";
import styles from "./hits.module.css";
import { text } from "./text";

interface HitsProps {
  session: string;
  search: string;
  current: string | null;
  onOpen: (span: string) => void;
  onClose: () => void;
}

export function Hits({ session, search, current, onOpen, onClose }: HitsProps) {
  const t = useText(text);
  const found = usePages<SearchHit, SearchList>("/search", { q: search, session, limit: 50 }, { keep: true });
  return (
    <section className={styles.hits} aria-label={t.hits}>
      <IconButton icon="close" label={t.closeSearch} onClick={onClose} className={styles.close} />
      {found.error ? <Failed error={found.error} retry={() => void found.refetch()} /> : null}
      {found.isPending && <Loading lines={2} />}
      {found.data && found.items.length === 0 && <p className="faint">{t.noHits}</p>}
      <ol role="list">
        {found.items.map((hit) => (
          <li key={hit.event_no}>
            <Hit hit={hit} current={hit.span_id !== null && hit.span_id === current} onOpen={onOpen} />
          </li>
        ))}
      </ol>
      {found.hasNextPage && (
        <Button small tone="quiet" busy={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
          {t.moreHits}
        </Button>
      )}
    </section>
  );
}

function Hit({ hit, current, onOpen }: { hit: SearchHit; current: boolean; onOpen: (span: string) => void }) {
  const t = useText(text);
  const f = useFormat();
  const kinds: Record<string, string> = t.hitKinds;
  return (
    <button
      type="button"
      className={styles.hit}
      aria-current={current || undefined}
      disabled={hit.span_id === null}
      onClick={() => hit.span_id !== null && onOpen(hit.span_id)}
    >
      <span className={styles.kind}>{Object.hasOwn(kinds, hit.kind) ? kinds[hit.kind] : visible(hit.kind)}</span>
      <bdi dir="auto" className={styles.snippet}>
        {hit.snippet.map((piece, index) => (
          // Pieces of a snippet have no other name than their place.
          // oxlint-disable-next-line react/no-array-index-key
          <Snippet key={index} piece={piece} />
        ))}
      </bdi>
      <span className="faint">{f.timeOfDay(hit.at)}</span>
    </button>
  );
}

function Snippet({ piece }: { piece: Piece }) {
  return piece.hit ? <mark>{visible(piece.text)}</mark> : <>{visible(piece.text)}</>;
}
