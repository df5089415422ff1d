/** The context of the chat user: the store, and the place in the mini program. */
import { Select } from "../../parts";
import { useText } from "../../text";
import { useChoice, useParam } from "../../url";
import { NumberField } from "../runs/number-field";
import { wholeNumber } from "../runs/whole-number";
import styles from "./chat.module.css";
import { text } from "./text";
import type { Place } from "./use-chat";

const ENTRIES = ["general", "task", "customer", "coach"] as const;

type Options = Omit<Place, "conversation_id"> | null;

/** The values of the address; null if it names no store. */
export function useOptions(): Options {
  const [site] = useParam("site", "1");
  const [entry] = useChoice("entry", ENTRIES);
  const [target] = useParam("target");
  const number = Number(wholeNumber(site) ?? 0);
  if (number < 1) return null;
  return { site_id: number, entry, target_id: entry === "general" ? null : target.trim() || null };
}

export function OptionBar({ fixed }: { fixed: boolean }) {
  const t = useText(text);
  const [site, setSite] = useParam("site", "1");
  const [entry, setEntry] = useChoice("entry", ENTRIES);
  const [target, setTarget] = useParam("target");
  return (
    <fieldset className={styles.options} disabled={fixed}>
      <legend className="unseen">{t.options}</legend>
      <NumberField label={t.store} value={site} required onChange={(value) => setSite(value || null)} />
      <Select
        label={t.entry}
        value={entry}
        options={ENTRIES.map((value) => ({ value, label: t.entries[value] }))}
        onChange={(value) => setEntry(ENTRIES.find((each) => each === value) ?? "general")}
      />
      {entry !== "general" && (
        <label className={styles.field}>
          <span>{t.target[entry]}</span>
          <input
            type="text"
            autoComplete="off"
            dir="auto"
            maxLength={100}
            value={target}
            onChange={(event) => setTarget(event.target.value)}
          />
        </label>
      )}
      {fixed && <span className={styles.fixed}>{t.fixed}</span>}
    </fieldset>
  );
}
