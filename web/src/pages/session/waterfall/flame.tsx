/** Spans grouped by the path of their names, as wide as their time, tokens or cost; a group narrows the rows below to it. */
import type { KeyboardEvent } from "react";
import { memo, useMemo, useRef, useState } from "react";

import { useFormat } from "../../../format";
import { modelName } from "../../../models";
import { Icon, Segmented, Text, visible } from "../../../parts";
import { useText } from "../../../text";
import { useParam } from "../../../url";
import type { Spans } from "../data/use-spans";
import type { View } from "../data/use-view";
import type { Box, Flame as Groups, Group, Measure } from "../model/flame";
import { boxesOf, flameOf, groupAt, measuresOf, pathOf, valueOf } from "../model/flame";
import { text } from "../text";
import styles from "./flame.module.css";
import { waterfallText } from "./text";
import { useWidth } from "./use-width";

/** Sessions of more spans are shown aggregated, unless this is switched off. */
const MANY = 1000;

export function isAggregated(view: View, spans: Spans): boolean {
  return view.flame ?? spans.table.length > MANY;
}

interface FlameProps {
  spans: Spans;
  view: View;
  now: number;
  /** Goes to a span. */
  onGo: (id: string) => void;
}

const LEVEL = 24;
/** So many pixels wide must a group be to show its name, a mark for failures, its measure. */
const NAMED = 28;
const MARKED = 64;
const MEASURED = 110;

/** Not drawn again while only the window of time moves. */
export const Flame = memo(function Flame({ spans, view, now, onGo }: FlameProps) {
  const t = useText(waterfallText);
  const flame = useMemo(() => flameOf(spans.table, now), [spans, now]);
  const measures = useMemo(() => measuresOf(flame), [flame]);
  const [asked, setMeasure] = useParam("measure", "time");
  const measure = measures.find((name) => name === asked) ?? "time";
  const path = view.filter.path ?? [];
  const narrowed = groupAt(flame, path);
  const boxes = useMemo(() => boxesOf(flame, measure, narrowed), [flame, measure, narrowed]);
  const narrow = (group: number) => {
    // Other rows come into view: a window that is not pinned follows them.
    const released = view.pinned ? {} : { from: null, to: null };
    view.change({ path: group < 0 ? null : pathOf(flame, group), ...released }, { push: true });
  };
  const [pointed, setPointed] = useState(-1);
  const told = pointed >= 0 ? pointed : narrowed;
  return (
    <section className={styles.flame} aria-label={t.label}>
      <div className={styles.head}>
        <Segmented<Measure>
          label={t.measure}
          value={measure}
          onChange={setMeasure}
          choices={measures.map((name) => ({ value: name, label: measureName(name, t) }))}
        />
        <Figures flame={flame} group={told} measure={measure} spans={spans} now={now} onGo={onGo} onAll={narrowed >= 0 ? () => narrow(-1) : undefined} />
      </div>
      {boxes.length === 0 ? (
        <p className="faint">{t.none}</p>
      ) : (
        <Boxes flame={flame} boxes={boxes} measure={measure} narrowed={narrowed} onNarrow={narrow} onPoint={setPointed} />
      )}
    </section>
  );
});

type FlameText = (typeof waterfallText)["en"];

function measureName(measure: Measure, t: FlameText): string {
  return measure === "time" || measure === "tokens" ? t.measures[measure] : t.cost(measure.slice("cost ".length));
}

function useNameOf(): (group: Group) => string {
  const t = useText(waterfallText);
  const { kinds } = useText(text);
  return (group) => {
    if (group.name !== "") return group.kind === "step" ? modelName(group.name) : group.name;
    if (group.kind === "subagent") return t.subagents;
    return group.kind === "turn" || group.kind === "agent" ? t.turns : kinds[group.kind];
  };
}

function useMeasured(): (group: Group, measure: Measure) => string {
  const f = useFormat();
  return (group, measure) => {
    if (measure === "time") return f.duration(group.time);
    return measure === "tokens" ? f.tokens(group.tokens) : f.money(valueOf(group, measure), measure.slice("cost ".length));
  };
}

interface BoxesProps {
  flame: Groups;
  boxes: readonly Box[];
  measure: Measure;
  narrowed: number;
  onNarrow: (group: number) => void;
  onPoint: (group: number) => void;
}

/** A tree from top to bottom: arrow keys go to what is inside, around and beside, Enter narrows. */
function Boxes({ flame, boxes, measure, narrowed, onNarrow, onPoint }: BoxesProps) {
  const t = useText(waterfallText);
  const nameOf = useNameOf();
  const measured = useMeasured();
  const f = useFormat();
  const tree = useRef<HTMLDivElement>(null);
  const width = useWidth(tree);
  const [focused, setFocused] = useState(-1);
  const shown = boxes.filter((box) => box.group >= 0);
  const stop = shown.some((box) => box.group === focused) ? focused : (shown.find((box) => box.group === narrowed) ?? shown[0])?.group;
  const levels = boxes.reduce((most, box) => Math.max(most, box.level + 1), 1);
  const focus = (group: number | undefined) => {
    if (group !== undefined) tree.current?.querySelector<HTMLElement>(`[data-group="${group}"]`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent, box: Box) => {
    const group = flame.groups[box.group];
    const level = shown.filter((other) => other.level === box.level).sort((a, b) => a.left - b.left);
    const beside = level.indexOf(box);
    const actions: Record<string, () => void> = {
      ArrowDown: () => focus(shown.find((other) => flame.groups[other.group]?.parent === box.group)?.group),
      ArrowUp: () => focus(group?.parent),
      ArrowLeft: () => focus(level[beside - 1]?.group),
      ArrowRight: () => focus(level[beside + 1]?.group),
      Home: () => focus(shown[0]?.group),
      End: () => focus(level.at(-1)?.group),
      Enter: () => onNarrow(box.group),
      " ": () => onNarrow(box.group),
      Escape: () => onNarrow(flame.groups[narrowed]?.parent ?? -1),
    };
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : actions[event.key];
    if (!action || (event.key === "Escape" && narrowed < 0)) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  };
  return (
    <div
      ref={tree}
      role="tree"
      aria-label={t.label}
      aria-orientation="horizontal"
      className={styles.boxes}
      onPointerLeave={() => onPoint(-1)}
    >
      <div className={styles.levels} style={{ height: levels * LEVEL }} role="presentation">
        {boxes.map((box) => {
          const group = flame.groups[box.group];
          const place = { left: `${box.left * 100}%`, width: `${box.width * 100}%`, top: box.level * LEVEL };
          if (!group) return <span key={`${box.level} ${box.left}`} className={styles.rest} style={place} title={t.rest(box.groups)} />;
          const name = nameOf(group);
          const opens = shown.some((other) => flame.groups[other.group]?.parent === box.group);
          return (
            // Keys are handled here too.
            <div
              key={box.group}
              role="treeitem"
              data-group={box.group}
              data-kind={group.kind}
              data-around={narrowed >= 0 && box.level < (flame.groups[narrowed]?.depth ?? 0) ? true : undefined}
              aria-level={box.level + 1}
              aria-expanded={opens ? true : undefined}
              aria-selected={box.group === narrowed}
              tabIndex={box.group === stop ? 0 : -1}
              className={styles.box}
              style={place}
              title={`${visible(name)}\n${measured(group, measure)}`}
              onClick={() => onNarrow(box.group === narrowed ? group.parent : box.group)}
              onFocus={() => {
                setFocused(box.group);
                onPoint(box.group);
              }}
              onBlur={() => onPoint(-1)}
              onPointerEnter={() => onPoint(box.group)}
              onKeyDown={(event) => onKeyDown(event, box)}
            >
              {group.errors > 0 && box.width * width > MARKED && (
                <span className={styles.failed}>
                  <Icon name="warn" size={12} />
                </span>
              )}
              <Text className={box.width * width > NAMED ? styles.name : "unseen"}>{name}</Text>{" "}
              <span className={box.width * width > MEASURED ? styles.value : "unseen"}>{measured(group, measure)}</span>
              <span className="unseen">
                {", "}
                {t.calls(group.count, f.count(group.count))}
                {group.errors > 0 && `, ${t.failed(f.count(group.errors))}`}
              </span>
            </div>
          );
        })}
      </div>
    </div>
  );
}

interface FiguresProps {
  flame: Groups;
  /** -1 for all. */
  group: number;
  measure: Measure;
  spans: Spans;
  now: number;
  onGo: (id: string) => void;
  onAll?: () => void;
}

/** The path and the figures of the group under the pointer or the focus, or of the narrowed one. */
function Figures({ flame, group: index, measure, spans, now, onGo, onAll }: FiguresProps) {
  const t = useText(waterfallText);
  const f = useFormat();
  const nameOf = useNameOf();
  const group = flame.groups[index];
  const all = flame.tops.reduce((sum, top) => sum + valueOf(flame.groups[top] as Group, measure), 0);
  const names: string[] = [];
  for (let at = index; at >= 0; at = flame.groups[at]?.parent ?? -1) {
    const around = flame.groups[at];
    if (around) names.unshift(nameOf(around));
  }
  const { table } = spans;
  const took = (row: number) => Math.max(table.endOf(row, now) - (table.start[row] ?? 0), 0);
  return (
    <div className={styles.figures}>
      {onAll && (
        <button type="button" className={styles.all} onClick={onAll}>
          <Icon name="close" size={12} /> {t.all}
        </button>
      )}
      {!group && <span className={styles.hint}>{t.choose}</span>}
      {group && (
        <>
          <Text className={styles.path}>{names.join(" › ")}</Text>
          <span>{t.calls(group.count, f.count(group.count))}</span>
          {group.errors > 0 && <span className={styles.failed}>{t.failed(f.count(group.errors))}</span>}
          <span>{t.total(f.duration(group.time))}</span>
          <span className={styles.wide}>{t.mean(f.duration(group.time / group.count))}</span>
          {group.tokens > 0 && <span>{t.tokens(f.tokens(group.tokens))}</span>}
          {(Object.keys(group.costs).length > 0 || group.unpriced > 0) && (
            <span className={styles.money}>{f.cost({ costs: group.costs, unpriced_tokens: group.unpriced })}</span>
          )}
          <span className={styles.wide}>{t.share(f.percent(valueOf(group, measure), all))}</span>
          {group.longest >= 0 && (
            <button type="button" className={styles.all} onClick={() => onGo(table.ids[group.longest] ?? "")}>
              {t.longest(f.duration(took(group.longest)))}
            </button>
          )}
        </>
      )}
    </div>
  );
}
