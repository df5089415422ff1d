/** The views of a session's spans, and the details of one span. */
import type { RefObject } from "react";
import { Suspense, lazy, useEffect, useMemo, useState } from "react";

import type { SessionDetail } from "../../api/shapes";
import { useLiveTexts } from "../../api/use-live";
import { Button, Empty, Loading, panelProps, useNow } from "../../parts";
import { useText } from "../../text";
import { Conversation } from "./conversation/conversation";
import type { Spans } from "./data/use-spans";
import { useTextCache } from "./data/use-texts";
import type { View } from "./data/use-view";
import { tabParams, useView } from "./data/use-view";
import { Pane } from "./detail/pane";
import { Hits } from "./hits";
import { turnAround } from "./model/outline";
import { extent } from "./model/rows";
import { Outline } from "./outline/outline";
import rail from "./outline/outline.module.css";
import { OutlineDrawer, useOutline } from "./outline/use-outline";
import { ReplayControls } from "./replay/replay-controls";
import { useReplay } from "./replay/use-replay";
import { SessionContext } from "./session-context";
import styles from "./session.module.css";
import { text } from "./text";
import { TABS, Toolbar } from "./toolbar";
import { useKeys } from "./use-keys";
import { usePlace } from "./use-place";
import { useScale } from "./waterfall/use-scale";
import { Waterfall } from "./waterfall/waterfall";

// Most sessions are only read: the other tabs are loaded when they are opened.
const Changes = lazy(() => import("./changes/changes").then((found) => ({ default: found.Changes })));
const Raw = lazy(() => import("./raw/raw").then((found) => ({ default: found.Raw })));
const Requests = lazy(() => import("./requests/requests").then((found) => ({ default: found.Requests })));
const Tools = lazy(() => import("./tools/tools").then((found) => ({ default: found.Tools })));

interface ViewsProps {
  spans: Spans;
  /** Undefined while it is loaded. */
  session: SessionDetail | undefined;
  live: boolean;
  received: boolean;
  /** Where to say which spans have changed. */
  changed: RefObject<(ids: readonly string[]) => void>;
}

/** Characters of each text: enough to read, and enough for a label. */
const READ = 2000;
const LABEL = 160;

export function Views({ spans, session, live, received, changed }: ViewsProps) {
  const view = useView();
  const bodies = useTextCache(spans.key, READ);
  const labels = useTextCache(spans.key, LABEL);
  const glimpses = useTextCache(spans.key, LABEL);
  useEffect(() => {
    changed.current = (ids) => {
      for (const cache of [bodies, labels, glimpses]) cache.drop(ids);
    };
  }, [changed, bodies, labels, glimpses]);
  useLiveTexts((news) => {
    if (news.session !== spans.key || news.chars < READ) return;
    for (const cache of [bodies, labels, glimpses]) cache.put(news);
  });
  const replay = useReplay(spans, view, live);
  const place = usePlace(spans, view, live, received, replay.limit);
  const now = useMoment(spans, live, view.name === "waterfall");
  const time = useScale(spans, view, now);
  const row = spans.table.rowOf(place.currentId);
  const outline = useOutline();
  const [top, setTop] = useState(-1);
  useKeys(place.moves, view, time, row, (row) => [spans.table.start[row] ?? 0, spans.table.endOf(row, now)], outline.toggle);
  const toggleReplay = () => replay.toggle(place.jump);
  const shared = { spans, rows: place.rows, current: place.current, jump: place.jump, onCurrent: place.setCurrent };
  // Whatever is filtered, the span has to be there.
  const show = (id: string) => {
    view.change({ ...tabParams(view.name === "waterfall" ? "waterfall" : "conversation"), errors: false, tool: null });
    place.goTo(id);
    outline.leave();
  };
  const file = (path: string | null) => {
    view.change({ ...tabParams("changes"), file: path });
    outline.leave();
  };
  const around = <Outline spans={spans} session={session} cache={glimpses} turn={view.name === "conversation" ? top : turnAround(spans.table, row)} onGo={show} onFile={file} />;
  const noRows = place.rows.length === 0;
  return (
    <SessionContext value={place.tools}>
      <Toolbar
        view={view}
        spans={spans}
        time={time}
        replay={replay}
        onReplay={toggleReplay}
        outline={outline.shown}
        onOutline={outline.toggle}
      />
      {view.name === "conversation" && <ReplayControls replay={replay} table={spans.table} onToggle={toggleReplay} />}
      {view.search !== "" && (
        <Hits
          session={spans.key}
          search={view.search}
          current={place.currentId}
          onOpen={(span) => {
            place.goTo(span);
            place.tools.details(span);
          }}
          onClose={() => view.change({ q: null })}
        />
      )}
      <div className={styles.body}>
        <div {...panelProps(TABS, view.name)} className={styles.panel}>
          <Suspense fallback={<Loading lines={12} />}>
            {view.name === "requests" && <Requests session={spans.key} />}
            {view.name === "changes" && <Changes session={spans.key} file={view.file} onFile={(path) => view.change({ file: path })} onSpan={show} />}
            {view.name === "tools" && <Tools spans={spans} cache={labels} tool={view.calls} onSpan={show} />}
            {view.name === "raw" && <Raw session={spans.key} onSpan={show} />}
          </Suspense>
          {view.name === "waterfall" &&
            (noRows ? <NoMatch view={view} /> : <Waterfall {...shared} cache={labels} window={time} now={now} view={view} onGo={place.goTo} />)}
          {view.name === "conversation" &&
            (noRows ? (
              <NoMatch view={view} />
            ) : (
              // A replay begins at the end of its few rows, and stays there.
              <Conversation
                {...shared}
                key={replay.on ? "replay" : "all"}
                jump={replay.on ? place.jump - replay.jumps : place.jump}
                cache={bodies}
                live={live || replay.on}
                onTop={setTop}
              />
            ))}
        </div>
        {view.span !== null && <Pane session={spans.key} span={view.span} onClose={() => view.change({ span: null })} />}
        {outline.beside && (view.span === null || outline.roomy) && <div className={rail.rail}>{around}</div>}
      </div>
      <OutlineDrawer outline={outline}>{around}</OutlineDrawer>
    </SessionContext>
  );
}

/** Until when open spans are known to go on: now while the agent works, the last thing it did after that. */
function useMoment(spans: Spans, live: boolean, seen: boolean): number {
  const now = useNow(live && seen ? 1 : 3600);
  const last = useMemo(() => (seen ? extent(spans.table, 0)[1] : 0), [spans, seen]);
  return live ? Math.max(now, last) : last;
}

/** No span is left over by the filter. */
function NoMatch({ view }: { view: View }) {
  const t = useText(text);
  return (
    <div className={styles.none}>
      <Empty icon="filter" title={t.noMatch}>
        <Button onClick={() => view.change({ errors: false, tool: null, path: null })}>{t.clearFilters}</Button>
      </Empty>
    </div>
  );
}
