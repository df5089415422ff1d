/** The controls of the replay: play, step, speed, position. */
import { useMemo } from "react";

import { useFormat } from "../../../format";
import { modelName } from "../../../models";
import { IconButton, Segmented, visible } from "../../../parts";
import { useShortcuts } from "../../../shell/shortcuts";
import { useText } from "../../../text";
import type { SpanTable } from "../model/span-table";
import { text } from "../text";
import { running } from "./appearance";
import styles from "./replay.module.css";
import { replayText } from "./text";
import type { Replay, Speed } from "./use-replay";
import { SPEEDS } from "./use-replay";

/** So many names of what runs are shown. */
const MOST = 3;

interface ReplayBarProps {
  replay: Replay;
  table: SpanTable;
  onClose: () => void;
}

export function ReplayBar({ replay, table, onClose }: ReplayBarProps) {
  const t = useText(replayText);
  const f = useFormat();
  const { playing, ended, speed } = replay;
  const play = playing ? t.pause : ended ? t.again : t.play;
  const faster = (by: 1 | -1) => {
    const next = SPEEDS[SPEEDS.indexOf(speed) + by];
    if (next !== undefined) replay.setSpeed(next);
  };
  useShortcuts([
    { keys: " ", does: t.keys.play, run: () => replay.play(!playing) },
    { keys: ",", does: t.keys.back, run: () => replay.step(-1) },
    { keys: ".", does: t.keys.forward, run: () => replay.step(1) },
    { keys: "<", does: t.keys.slower, run: () => faster(-1) },
    { keys: ">", does: t.keys.faster, run: () => faster(1) },
  ]);
  const clock = f.timeOfDay(replay.at);
  const where = t.at(f.duration(replay.position), f.duration(replay.length), clock);
  return (
    <div className={styles.bar} role="group" aria-label={t.label}>
      <span className={styles.buttons}>
        <IconButton icon="back" label={`${t.back} (,)`} onClick={() => replay.step(-1)} />
        <IconButton icon={playing ? "pause" : "play"} label={`${play} (${"␣"})`} className={styles.play} onClick={() => replay.play(!playing)} />
        <IconButton icon="forward" label={`${t.forward} (.)`} onClick={() => replay.step(1)} />
      </span>
      <input
        type="range"
        className={styles.seek}
        aria-label={t.position}
        aria-valuetext={where}
        min={0}
        max={Math.ceil(replay.length)}
        step="any"
        value={replay.position}
        onChange={(event) => replay.seek(event.target.valueAsNumber)}
        onKeyDown={(event) => {
          // The arrow keys of the page go from row to row.
          if (event.key.startsWith("Arrow")) event.stopPropagation();
        }}
      />
      <Running table={table} replay={replay} />
      <span className={styles.where} title={t.pausesCut}>
        {where}
      </span>
      <Segmented<string>
        label={t.speed}
        value={String(speed)}
        onChange={(next) => replay.setSpeed(Number(next) as Speed)}
        choices={SPEEDS.map((each) => ({ value: String(each), label: `${each}×` }))}
      />
      <IconButton icon="close" label={`${t.close} (y)`} onClick={onClose} />
    </div>
  );
}

/** What ran at this moment: its row appears when it has a result. */
function Running({ table, replay }: { table: SpanTable; replay: Replay }) {
  const t = useText(replayText);
  const { modelCall } = useText(text);
  const names = useMemo(
    () => running(table, replay.at, MOST).map((row) => table.toolOf(row) || (table.kindOf(row) === "step" ? modelName(table.models[row] ?? modelCall) : table.titleOf(row))),
    [table, replay.at, modelCall],
  );
  if (replay.ended) return <span className={styles.running}>{t.end}</span>;
  return <span className={styles.running}>{names.length > 0 ? t.running(names.toReversed().map(visible).join(" › ")) : ""}</span>;
}
