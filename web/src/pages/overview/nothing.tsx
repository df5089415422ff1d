/** Before anything was recorded: how to begin. */
import { Copy, Empty } from "../../parts";
import { useText } from "../../text";
import styles from "./overview.module.css";
import { text } from "./text";

export function Nothing({ recording }: { recording: boolean }) {
  const t = useText(text);
  return (
    <Empty icon="sessions" title={recording ? t.nothingYet : t.nothingRecorded}>
      <p>{recording ? t.recordingNote : t.startNote}</p>
      {!recording && <Command>agenttrace up</Command>}
      <p>{t.demoNote}</p>
      <Command>agenttrace demo --console</Command>
    </Empty>
  );
}

/** A command to be typed into a terminal. */
function Command({ children }: { children: string }) {
  return (
    <span className={styles.command}>
      <code>{children}</code>
      <Copy text={children} />
    </span>
  );
}
