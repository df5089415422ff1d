/** Why applications cannot be run, and what to do about it. */
import { Link } from "wouter";

import { Code, Copy, Empty, Icon, Text, sentence } from "../../parts";
import { useTypeable } from "../../program";
import { useText } from "../../text";
import styles from "./runs.module.css";
import { text } from "./text";

export function Unavailable({ error }: { error: unknown }) {
  const t = useText(text);
  const typeable = useTypeable();
  return (
    <Empty icon="runs" title={t.away.title}>
      <p>
        <Text>{typeable(sentence(error))}</Text>
      </p>
      <p>{t.away.how}</p>
      <Command text="agenttrace doctor" />
      <Link href="/settings?tab=doctor">{t.toDoctor}</Link>
    </Empty>
  );
}

/** A command for the terminal, to be copied. */
export function Command({ text: given }: { text: string }) {
  const t = useText(text);
  const command = useTypeable()(given);
  return (
    <div className={styles.command}>
      <Code text={command} label={t.away.command} bare />
      <Copy text={command} label={t.away.copy} />
    </div>
  );
}

/** Shown above everything else while environment variables are missing. */
export function MissingSettings({ names }: { names: readonly string[] }) {
  const t = useText(text);
  if (names.length === 0) return null;
  return (
    <div className={styles.missing}>
      <Icon name="warn" />
      <div>
        <p>{t.missing}</p>
        <p className={styles.names}>
          {names.map((name) => (
            <code key={name}>{name}</code>
          ))}
        </p>
        <Link href="/settings?tab=doctor">{t.toDoctor}</Link>
      </div>
    </div>
  );
}
