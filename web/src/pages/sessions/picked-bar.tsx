/** The sessions that are selected to be compared, and the way to their comparison. */
import { useGet } from "../../api/queries";
import type { SessionDetail } from "../../api/shapes";
import { Button, IconButton, LinkButton, Text } from "../../parts";
import { useText } from "../../text";
import { address } from "../../url";
import type { Picked } from "./picked";
import styles from "./picked-bar.module.css";
import { text } from "./text";

export function PickedBar({ picked }: { picked: Picked }) {
  const t = useText(text).comparing;
  const [a, b] = picked.keys;
  if (a === undefined) return null;
  return (
    <div className={styles.bar} role="group" aria-label={t.label}>
      <span className={styles.names}>
        {picked.keys.map((key, index) => (
          <Name key={key} letter={index === 0 ? "A" : "B"} name={key} onRemove={() => picked.toggle(key)} />
        ))}
        {b === undefined && <span className="faint">{t.another}</span>}
      </span>
      {b !== undefined && (
        <LinkButton href={address("/compare", { a, b })} tone="main" icon="compare">
          {t.compare}
        </LinkButton>
      )}
      <Button tone="quiet" onClick={picked.clear}>
        {t.cancel}
      </Button>
    </div>
  );
}

function Name({ letter, name, onRemove }: { letter: string; name: string; onRemove: () => void }) {
  const t = useText(text);
  const { data } = useGet<SessionDetail>(`/sessions/${encodeURIComponent(name)}`, {}, { fresh: 60_000 });
  return (
    <span className={styles.name}>
      <b>{letter}</b>
      <Text line none={data ? t.untitled : name}>
        {data?.title ?? ""}
      </Text>
      <IconButton icon="close" label={t.comparing.remove(letter)} onClick={onRemove} />
    </span>
  );
}
