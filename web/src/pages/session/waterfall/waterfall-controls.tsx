/** What is chosen of the waterfall: its window of time, and whether spans are shown aggregated. */
import { Button, IconButton } from "../../../parts";
import { useText } from "../../../text";
import type { Spans } from "../data/use-spans";
import type { View } from "../data/use-view";
import { text } from "../text";
import { Toggle } from "../toggle";
import styles from "../toolbar.module.css";
import { isAggregated } from "./flame";
import { waterfallText } from "./text";
import type { Window } from "./use-scale";

export function WaterfallControls({ view, spans, time }: { view: View; spans: Spans; time: Window }) {
  const t = useText(text);
  const own = useText(waterfallText);
  return (
    <>
      <Toggle
        on={isAggregated(view, spans)}
        label={own.aggregate}
        title={own.aggregateHint}
        onChange={(on) => view.change({ flame: on ? "on" : "off", path: null })}
      />
      <Toggle on={!view.realTime} label={t.cutPauses} onChange={(on) => view.change({ realtime: !on })} />
      <Toggle on={view.pinned} label={own.pin} title={own.pinHint} onChange={time.pin} />
      <span className={styles.zoom}>
        <IconButton icon="minus" label={`${t.zoomOut} (-)`} onClick={() => time.zoom(2)} />
        <IconButton icon="plus" label={`${t.zoomIn} (+)`} onClick={() => time.zoom(0.5)} />
        <Button small tone="quiet" disabled={time.whole} onClick={() => time.zoom(null)}>
          {t.zoomAll}
        </Button>
      </span>
    </>
  );
}
