/** Which view, which spans, and the search in the session. */
import { useEffect, useMemo } from "react";

import { Button, IconButton, SearchInput, Select, Tabs, visible } from "../../parts";
import { useText } from "../../text";
import type { Spans } from "./data/use-spans";
import type { View, ViewName } from "./data/use-view";
import { VIEWS, tabParams } from "./data/use-view";
import { toolCounts } from "./model/rows";
import { text as outlineText } from "./outline/text";
import { text } from "./text";
import styles from "./toolbar.module.css";

export const SEARCH = "session-search";
/** The id of the tabs, by which their panel is found. */
export const TABS = "session";

interface ToolbarProps {
  view: View;
  spans: Spans;
  onZoom: (factor: number | null) => void;
  /** Whether the outline is shown. */
  outline: boolean;
  onOutline: () => void;
}

export function Toolbar({ view, spans, onZoom, outline, onOutline }: ToolbarProps) {
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
        <Toggle on={view.hideThinking} label={t.hideThinking} onChange={(on) => view.change({ nothinking: on })} />
      )}
      {view.name === "waterfall" && (
        <>
          <Toggle on={!view.realTime} label={t.cutPauses} onChange={(on) => view.change({ realtime: !on })} />
          <span className={styles.zoom}>
            <IconButton icon="minus" label={`${t.zoomOut} (-)`} onClick={() => onZoom(2)} />
            <IconButton icon="plus" label={`${t.zoomIn} (+)`} onClick={() => onZoom(0.5)} />
            <Button small tone="quiet" disabled={!view.zoom} onClick={() => onZoom(null)}>
              {t.zoomAll}
            </Button>
          </span>
        </>
      )}
      <div className={styles.search}>
        <SearchInput id={SEARCH} label={t.search} value={view.search} onChange={(q) => view.change({ q })} />
      </div>
      <IconButton icon="outline" label={`${outline ? o.hide : o.show} (o)`} pressed={outline} className={styles.outline} onClick={onOutline} />
    </div>
  );
}

function Toggle({ on, label, onChange }: { on: boolean; label: string; onChange: (on: boolean) => void }) {
  return (
    <button type="button" className={styles.toggle} aria-pressed={on} onClick={() => onChange(!on)}>
      {label}
    </button>
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
