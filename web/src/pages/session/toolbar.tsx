/** Which view, which spans, and the search in the session. */
import { useEffect, useMemo } from "react";

import { IconButton, SearchInput, Select, Tabs, visible } from "../../parts";
import { useText } from "../../text";
import type { Spans } from "./data/use-spans";
import type { View, ViewName } from "./data/use-view";
import { VIEWS, tabParams } from "./data/use-view";
import { toolCounts } from "./model/rows";
import { text as outlineText } from "./outline/text";
import { ReplayToggle } from "./replay/replay-controls";
import type { Replay } from "./replay/use-replay";
import { text } from "./text";
import { Toggle } from "./toggle";
import styles from "./toolbar.module.css";
import type { Window } from "./waterfall/use-scale";
import { WaterfallControls } from "./waterfall/waterfall-controls";

export const SEARCH = "session-search";
/** The id of the tabs, by which their panel is found. */
export const TABS = "session";

interface ToolbarProps {
  view: View;
  spans: Spans;
  time: Window;
  replay: Replay;
  onReplay: () => void;
  /** Whether the outline is shown. */
  outline: boolean;
  onOutline: () => void;
}

export function Toolbar({ view, spans, time, replay, onReplay, outline, onOutline }: ToolbarProps) {
  const t = useText(text);
  const o = useText(outlineText);
  const hasRows = view.name === "conversation" || view.name === "waterfall";
  useEffect(() => {
    // On narrow screens the tabs are wider than the page.
    document.getElementById(`${TABS}-tab-${view.name}`)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [view.name]);
  return (
    <div className={styles.toolbar} role="group" aria-label={t.filters}>
      <Tabs<ViewName>
        id={TABS}
        label={t.view}
        value={view.name}
        onChange={(name) => view.change(tabParams(name))}
        choices={VIEWS.map((name, index) => ({ value: name, label: t.tabs[name], title: `${t.tabs[name]} (${index + 1})` }))}
      />
      {hasRows && (
        <>
          <Toggle on={view.filter.errors} label={t.onlyErrors} onChange={(on) => view.change({ errors: on })} />
          <ToolSelect view={view} spans={spans} />
        </>
      )}
      {view.name === "conversation" && (
        <>
          <Toggle on={view.hideThinking} label={t.hideThinking} onChange={(on) => view.change({ nothinking: on })} />
          <ReplayToggle on={replay.on} onChange={onReplay} />
        </>
      )}
      {view.name === "waterfall" && <WaterfallControls view={view} spans={spans} time={time} />}
      <div className={styles.end}>
        <div className={styles.search}>
          <SearchInput id={SEARCH} label={t.search} placeholder={t.searchHere} value={view.search} onChange={(q) => view.change({ q })} />
        </div>
        <IconButton icon="outline" label={`${outline ? o.hide : o.show} (o)`} pressed={outline} className={styles.outline} onClick={onOutline} />
      </div>
    </div>
  );
}

function ToolSelect({ view, spans }: { view: View; spans: Spans }) {
  const t = useText(text);
  const counts = useMemo(() => toolCounts(spans.table), [spans]);
  const { tool } = view.filter;
  // The address may name a tool that this session never called.
  const names = tool !== "" && !counts.some(([name]) => name === tool) ? [[tool, 0] as const, ...counts] : counts;
  return (
    <Select
      bare
      label={t.tool}
      none={t.allTools}
      value={tool}
      options={names.map(([name, count]) => ({ value: name, label: `${visible(name)} (${count})` }))}
      onChange={(name) => view.change({ tool: name })}
    />
  );
}
