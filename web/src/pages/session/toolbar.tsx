/** Which view, which spans, and the search in the session. */
import { useMemo } from "react";

import { SearchInput, Segmented, Select, visible } from "../../parts";
import { useText } from "../../text";
import type { Spans } from "./data/use-spans";
import type { View, ViewName } from "./data/use-view";
import { toolCounts } from "./model/rows";
import { ReplayToggle } from "./replay/replay-controls";
import type { Replay } from "./replay/use-replay";
import { text } from "./text";
import { Toggle } from "./toggle";
import styles from "./toolbar.module.css";
import type { Window } from "./waterfall/use-scale";
import { WaterfallControls } from "./waterfall/waterfall-controls";

export const SEARCH = "session-search";

interface ToolbarProps {
  view: View;
  spans: Spans;
  time: Window;
  replay: Replay;
  onReplay: () => void;
}

export function Toolbar({ view, spans, time, replay, onReplay }: ToolbarProps) {
  const t = useText(text);
  return (
    <div className={styles.toolbar} role="group" aria-label={t.filters}>
      <Segmented<ViewName>
        label={t.view}
        value={view.name}
        onChange={(name) => view.change({ view: name === "conversation" ? null : name })}
        choices={[
          { value: "conversation", label: t.conversation, icon: "chat", title: `${t.conversation} (c)` },
          { value: "waterfall", label: t.waterfall, icon: "session", title: `${t.waterfall} (w)` },
          { value: "requests", label: t.requests, icon: "usage", title: `${t.requests} (r)` },
        ]}
      />
      {view.name !== "requests" && (
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
      <div className={styles.search}>
        <SearchInput id={SEARCH} label={t.search} value={view.search} onChange={(q) => view.change({ q })} />
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
