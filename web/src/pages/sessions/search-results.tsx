/** Search results: sessions by title, and matches in texts. */
import { useCallback, useMemo } from "react";
import { Link } from "wouter";

import { usePages } from "../../api/queries";
import type { SearchHit, SearchList } from "../../api/shapes";
import { useFormat } from "../../format";
import { Button, Empty, Failed, Icon, Loading, PathText, Text, Time, VirtualList } from "../../parts";
import { useText } from "../../text";
import { address } from "../../url";
import type { View } from "./filters";
import { countSet } from "./filters";
import type { FoundItem } from "./found-texts";
import { foundItems, itemKey } from "./found-texts";
import { MarkedText } from "./marked-text";
import styles from "./search-results.module.css";
import { usePicked } from "./picked";
import { isUnseen, useSeen } from "./seen";
import { SessionItem } from "./session-item";
import list from "./session-list.module.css";
import { text } from "./text";
import type { Rows } from "./use-rows";

interface SearchResultsProps {
  view: View;
  found: Rows;
  onAllTitles: () => void;
}

export function SearchResults({ view, found, onAllTitles }: SearchResultsProps) {
  const t = useText(text);
  const { filters } = view;
  const { agents, projects, machines, persons } = filters;
  const asked = { q: filters.q, agent: agents, project: projects, machine: machines, person: persons };
  const texts = usePages<SearchHit, SearchList>("/search", asked, { keep: true });
  const items = useMemo(
    () => foundItems(found.rows, found.total ?? found.rows.length, texts.items),
    [found.rows, found.total, texts.items],
  );
  // Filters that a search in texts does not know.
  const others = countSet({ ...filters, agents: [], projects: [], machines: [], persons: [] });
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = texts;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  return (
    <>
      <SearchNotes backlog={texts.first?.backlog ?? 0} filtered={others > 0} />
      <div className={list.frame}>
        <VirtualList
          label={t.title}
          items={items}
          itemKey={itemKey}
          estimate={44}
          onEnd={more}
          render={(item) => <Item item={item} q={filters.q} more={hasNextPage} onAllTitles={onAllTitles} />}
          foot={<Foot texts={texts} />}
        />
      </div>
    </>
  );
}

function SearchNotes({ backlog, filtered }: { backlog: number; filtered: boolean }) {
  const t = useText(text);
  const f = useFormat();
  if (backlog === 0 && !filtered) return null;
  return (
    <p className={styles.notes}>
      {backlog > 0 && (
        <span role="status">
          <Icon name="clock" size={12} /> {t.backlog(f.count(backlog))}
        </span>
      )}
      {filtered && <span>{t.notFiltered}</span>}
    </p>
  );
}

/** The state of the search below what it has found so far. */
function Foot({ texts }: { texts: ReturnType<typeof usePages<SearchHit, SearchList>> }) {
  const t = useText(text);
  if (texts.error) {
    return (
      <div className={styles.foot}>
        <Failed error={texts.error} retry={() => void texts.refetch()} />
      </div>
    );
  }
  if (texts.isPending) return <Loading lines={6} />;
  if (texts.isFetchingNextPage) return <p className={list.foot}>{t.loadingMore}</p>;
  if (texts.items.length === 0 && !texts.isFetching) return <Empty title={t.noTexts} />;
  return null;
}

interface ItemProps {
  item: FoundItem;
  q: string;
  /** There are more hits than these. */
  more: boolean;
  onAllTitles: () => void;
}

function Item({ item, q, more, onAllTitles }: ItemProps) {
  const t = useText(text);
  const f = useFormat();
  const seen = useSeen();
  const picked = usePicked();
  switch (item.kind) {
    case "heading":
      return (
        <h2 className={styles.heading}>
          {item.of === "titles" ? t.inTitles : t.inTexts}{" "}
          {item.count > 0 && (
            <span className="faint">
              {f.count(item.count)}
              {item.of === "texts" && more ? "+" : ""}
            </span>
          )}
        </h2>
      );
    case "row":
      return (
        <SessionItem
          row={item.row}
          unseen={isUnseen(seen, item.row)}
          sought={q}
          onFocus={ignore}
          picked={picked.keys.includes(item.row.key)}
          onPick={picked.toggle}
        />
      );
    case "all-titles":
      return (
        <div className={styles.all}>
          <Button tone="quiet" small onClick={onAllTitles}>
            {t.allTitles(f.count(item.count))}
          </Button>
        </div>
      );
    case "session":
      return (
        <div className={styles.session}>
          <Link href={`/sessions/${item.session.key}`}>
            <Text line>{item.session.title ?? t.untitled}</Text>
          </Link>
          <span className={styles.about}>
            <Text line>{item.session.agent}</Text>
            {item.session.project && <PathText>{item.session.project}</PathText>}
          </span>
          <span className={styles.count}>
            {t.hits(item.count)} · <Time at={item.at} as="clock" />
          </span>
        </div>
      );
    case "hit":
      return <Hit hit={item.hit} />;
  }
}

function ignore(): void {
  // Rows among what was found are moved to with Tab.
}

function Hit({ hit }: { hit: SearchHit }) {
  const t = useText(text);
  const f = useFormat();
  const kinds: Record<string, string> = t.kinds;
  return (
    <Link href={address(`/sessions/${hit.session.key}`, { span: hit.span_id })} className={styles.hit}>
      <span className={styles.kind}>
        {Object.hasOwn(kinds, hit.kind) ? kinds[hit.kind] : <Text line>{hit.kind}</Text>}
      </span>
      <MarkedText pieces={hit.snippet} className={styles.snippet} />
      <time dateTime={hit.at ?? undefined} className={styles.at}>
        {f.clock(hit.at)}
      </time>
    </Link>
  );
}
