/** The views of a session's spans, and the details of one span. */
import type { RefObject } from "react";
import { useEffect, useMemo } from "react";

import { useLiveTexts } from "../../api/use-live";
import { Button, Empty, useNow } from "../../parts";
import { useText } from "../../text";
import { Conversation } from "./conversation/conversation";
import type { Spans } from "./data/use-spans";
import { useTextCache } from "./data/use-texts";
import type { View } from "./data/use-view";
import { useView } from "./data/use-view";
import { Pane } from "./detail/pane";
import { Hits } from "./hits";
import { extent } from "./model/rows";
import { Requests } from "./requests/requests";
import { ReplayControls } from "./replay/replay-controls";
import { useReplay } from "./replay/use-replay";
import { SessionContext } from "./session-context";
import styles from "./session.module.css";
import { text } from "./text";
import { Toolbar } from "./toolbar";
import { useKeys } from "./use-keys";
import { usePlace } from "./use-place";
import { useScale } from "./waterfall/use-scale";
import { Waterfall } from "./waterfall/waterfall";

interface ViewsProps {
  spans: Spans;
  live: boolean;
  received: boolean;
  /** Where to say which spans have changed. */
  changed: RefObject<(ids: readonly string[]) => void>;
}

/** Characters of each text: enough to read, and enough for a label. */
const READ = 2000;
const LABEL = 160;

export function Views({ spans, live, received, changed }: ViewsProps) {
  const view = useView();
  const bodies = useTextCache(spans.key, READ);
  const labels = useTextCache(spans.key, LABEL);
  useEffect(() => {
    changed.current = (ids) => {
      bodies.drop(ids);
      labels.drop(ids);
    };
  }, [changed, bodies, labels]);
  useLiveTexts((news) => {
    if (news.session !== spans.key || news.chars < READ) return;
    bodies.put(news);
    labels.put(news);
  });
  const replay = useReplay(spans, view, live);
  const place = usePlace(spans, view, live, received, replay.limit);
  const now = useMoment(spans, live, view.name === "waterfall");
  const time = useScale(spans, view, now);
  useKeys(place.moves, view, time, spans.table.rowOf(place.currentId), (row) => [spans.table.start[row] ?? 0, spans.table.endOf(row, now)]);
  const toggleReplay = () => replay.toggle(place.jump);
  const shared = { spans, rows: place.rows, current: place.current, jump: place.jump, onCurrent: place.setCurrent };
  return (
    <SessionContext value={place.tools}>
      <Toolbar view={view} spans={spans} time={time} replay={replay} onReplay={toggleReplay} />
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
        {view.name === "requests" ? (
          <Requests session={spans.key} />
        ) : place.rows.length === 0 ? (
          <NoMatch view={view} />
        ) : view.name === "waterfall" ? (
          <Waterfall {...shared} cache={labels} window={time} now={now} view={view} onGo={place.goTo} />
        ) : (
          // A replay begins at the end of its few rows, and stays there.
          <Conversation
            {...shared}
            key={replay.on ? "replay" : "all"}
            jump={replay.on ? place.jump - replay.jumps : place.jump}
            cache={bodies}
            live={live || replay.on}
          />
        )}
        {view.span !== null && <Pane session={spans.key} span={view.span} onClose={() => view.change({ span: null })} />}
      </div>
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
