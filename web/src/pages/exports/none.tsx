/** What to do where nothing is sent anywhere. */
import { useGet } from "../../api/queries";
import type { SettingList } from "../../api/shapes";
import { Code, Copy, Empty, PathText } from "../../parts";
import { useText } from "../../text";
import styles from "./exports.module.css";
import { text } from "./text";

const EXAMPLE = `[destinations.files]
type = "jsonl"
path = "~/agenttrace-export"

[destinations.phoenix]
type = "otlp"
url = "http://127.0.0.1:6006/v1/traces"
`;

export function None() {
  const t = useText(text);
  const settings = useGet<SettingList>("/settings", {}, { fresh: 60_000 }).data;
  return (
    <div className={styles.none}>
      <Empty title={t.none} icon="exports">
        <p>{t.noneHow}</p>
      </Empty>
      {settings && (
        <p className={styles.file}>
          {t.noneFile} <PathText>{settings.file}</PathText>
        </p>
      )}
      <Code text={EXAMPLE} label={t.example} bare />
      <div>
        <Copy text={EXAMPLE} label={t.copy} />
      </div>
      <p className="soft">{t.guide}</p>
      <p className="soft">{t.noneSingle}</p>
    </div>
  );
}
