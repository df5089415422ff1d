/** All sessions: live, filtered, searched. */
import type { ReactNode } from "react";
import { useEffect, useMemo, useState } from "react";
import { useSearch } from "wouter";

import { get } from "../../api/client";
import type { SessionList } from "../../api/shapes";
import { useFormat } from "../../format";
import { Button, Drawer, Empty, Failed, IconButton, Loading, Page, Select, sentence, toast } from "../../parts";
import { SavedViews } from "../../saved-views/saved-views";
import { NothingRecorded } from "../../shell/demo";
import { useText } from "../../text";
import { useFlagParam, useParams } from "../../url";
import { keepList } from "./came-from";
import { FilterControls } from "./filter-controls";
import type { Filters, View } from "./filters";
import { NO_FILTERS, SORTS, countSet, searchOf, viewOf, viewParams } from "./filters";
import { usePicked } from "./picked";
import type { Picked } from "./picked";
import { PickedBar } from "./picked-bar";
import { SearchResults } from "./search-results";
import { isUnseen, markAllSeen, useSeen, useVisit } from "./seen";
import { SessionListView } from "./session-list";
import styles from "./sessions.module.css";
import { text } from "./text";
import { useRows } from "./use-rows";
import type { Rows } from "./use-rows";

export default function Sessions() {
  const t = useText(text);
  const search = useSearch();
  const params = useParams();
  const view = useMemo(() => viewOf(search), [search]);
  const [titlesOnly, setTitlesOnly] = useFlagParam("titles");
  const picked = usePicked();
  const [held, setHeld] = useState(false);
  const found = useRows(view, held);
  useVisit(found.newest);
  const { rows } = found;
  useEffect(() => {
    if (rows.length > 0) keepList({ search, keys: rows.map((row) => row.key) });
  }, [search, rows]);
  const apply = (next: View) => params.change({ ...viewParams(next), titles: null }, { push: true });
  const change = (changes: Partial<Filters>) =>
    params.change(viewParams({ ...view, filters: { ...view.filters, ...changes } }));
  const clear = () => params.change({ ...viewParams({ ...view, filters: NO_FILTERS }), titles: null }, { push: true });
  const searching = view.filters.q !== "" && !titlesOnly;
  return (
    <Page
      full
      title={t.title}
      note={<Count found={found} titles={view.filters.q !== ""} />}
      actions={
        <span className={styles.wide}>
          <MarkAll found={found} />
          <SortSelect view={view} onView={apply} />
        </span>
      }
    >
      <div className={styles.controls}>
        <Controls
          view={view}
          onChange={change}
          onView={apply}
          onClear={clear}
          more={<MarkAll found={found} short />}
        />
        <div className={styles.chips}>
          {countSet(view.filters) > 0 && (
            <Button tone="quiet" small icon="close" onClick={clear}>
              {t.clearFilters}
            </Button>
          )}
          <SavedViews page="sessions" search={searchOf(view)} onApply={(saved) => apply(viewOf(saved))} />
          {titlesOnly && view.filters.q !== "" && (
            <Button tone="quiet" small icon="search" onClick={() => setTitlesOnly(false)}>
              {t.backToSearch}
            </Button>
          )}
        </div>
      </div>
      <PickedBar picked={picked} />
      {searching ? (
        <SearchResults view={view} found={found} onAllTitles={() => setTitlesOnly(true, { push: true })} />
      ) : (
        <Found view={view} found={found} onClear={clear} onView={apply} onHold={setHeld} picked={picked} />
      )}
    </Page>
  );
}

function Count({ found, titles }: { found: Rows; titles: boolean }) {
  const t = useText(text);
  const f = useFormat();
  if (found.total === undefined) return <>&nbsp;</>;
  const count = found.total === 1 ? t.one : t.count(f.count(found.total));
  return <>{titles ? t.titled(count) : count}</>;
}

function MarkAll({ found, short }: { found: Rows; short?: boolean }) {
  const t = useText(text);
  const seen = useSeen();
  if (!found.rows.some((row) => isUnseen(seen, row))) return null;
  // Of all sessions the newest, whatever is filtered here.
  const mark = () =>
    void get<SessionList>("/sessions", { limit: 1 }).then(
      (newest) => markAllSeen(newest.items[0]?.last_at ?? found.newest),
      (error: unknown) => toast(sentence(error), { failed: true }),
    );
  if (short) return <IconButton icon="check" label={t.markAll} onClick={mark} />;
  return (
    <Button icon="check" onClick={mark}>
      {t.markAll}
    </Button>
  );
}

/** By what the columns cannot sort, too. */
function SortSelect({ view, onView }: { view: View; onView: (view: View) => void }) {
  const t = useText(text);
  return (
    <Select
      label={t.sortBy}
      value={view.sort}
      options={SORTS.map((by) => ({ value: by, label: t.sorts[by] }))}
      onChange={(by) => onView({ ...view, sort: SORTS.find((known) => known === by) ?? "last", order: "desc" })}
    />
  );
}

interface ControlsProps {
  view: View;
  onChange: (changes: Partial<Filters>) => void;
  onView: (view: View) => void;
  onClear: () => void;
  /** Next to the filters on narrow screens. */
  more: ReactNode;
}

/** The filters: in a bar, or behind a button if there is no room. */
function Controls({ view, onChange, onView, onClear, more }: ControlsProps) {
  const t = useText(text);
  const [open, setOpen] = useState(false);
  const set = countSet(view.filters);
  const clear = set > 0 && (
    <Button tone="quiet" icon="close" onClick={onClear}>
      {t.clearFilters}
    </Button>
  );
  return (
    <>
      <div className={styles.bar} role="group" aria-label={t.filters}>
        <FilterControls filters={view.filters} onChange={onChange} />
      </div>
      <div className={styles.narrow}>
        <Button icon="filter" onClick={() => setOpen(true)}>
          {set > 0 ? t.filtersSet(set) : t.filters}
        </Button>
        <SortSelect view={view} onView={onView} />
        {more}
      </div>
      <Drawer
        open={open}
        onClose={() => setOpen(false)}
        title={t.filters}
        actions={
          <>
            {clear}
            <Button tone="main" onClick={() => setOpen(false)}>
              {t.apply}
            </Button>
          </>
        }
      >
        <div className={styles.drawer}>
          <FilterControls filters={view.filters} onChange={onChange} open />
        </div>
      </Drawer>
    </>
  );
}

interface FoundProps {
  view: View;
  found: Rows;
  onView: (view: View) => void;
  onClear: () => void;
  onHold: (held: boolean) => void;
  picked: Picked;
}

function Found({ view, found, onView, onClear, onHold, picked }: FoundProps) {
  const t = useText(text);
  const { query, rows } = found;
  if (!query.data) {
    return query.error ? <Failed error={query.error} retry={() => void query.refetch()} /> : <Loading lines={12} />;
  }
  if (rows.length === 0 && !query.isFetching) {
    if (countSet(view.filters) === 0 && view.filters.q === "") return <NothingRecorded />;
    return (
      <Empty icon="filter" title={view.filters.q ? t.noFitSearch : t.noFit}>
        <Button onClick={onClear}>{t.clearFilters}</Button>
      </Empty>
    );
  }
  return (
    <SessionListView
      view={view}
      found={found}
      onSort={(sort, order) => onView({ ...view, sort, order })}
      onHold={onHold}
      picked={picked}
    />
  );
}
