/** The way into the replay, and its controls while it is on. */
import { useShortcuts } from "../../../shell/shortcuts";
import { useText } from "../../../text";
import type { SpanTable } from "../model/span-table";
import { Toggle } from "../toggle";
import { ReplayBar } from "./replay-bar";
import { replayText } from "./text";
import type { Replay } from "./use-replay";

export function ReplayToggle({ on, onChange }: { on: boolean; onChange: () => void }) {
  const t = useText(replayText);
  return <Toggle on={on} label={t.replay} title={t.replayHint} onChange={onChange} />;
}

interface ReplayControlsProps {
  replay: Replay;
  table: SpanTable;
  onToggle: () => void;
}

export function ReplayControls({ replay, table, onToggle }: ReplayControlsProps) {
  const t = useText(replayText);
  useShortcuts([{ keys: "y", does: t.keys.toggle, run: onToggle }]);
  return replay.on ? <ReplayBar replay={replay} table={table} onClose={onToggle} /> : null;
}
