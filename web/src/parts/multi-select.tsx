/** A filter by several values: a chip that opens a list to tick. */
import { useState } from "react";

import { useFormat } from "../format";
import { useText } from "../text";
import { Button } from "./button";
import { Icon } from "./icon";
import styles from "./multi-select.module.css";
import { Popup } from "./popup";
import { Text } from "./text-view";
import { visible } from "./text";
import { text } from "./words";

export interface Option {
  value: string;
  label?: string;
  count?: number;
}

interface MultiSelectProps {
  label: string;
  chosen: readonly string[];
  options: readonly Option[];
  onChange: (chosen: string[]) => void;
}

const SEARCH_FROM = 8;
const SHOWN_MOST = 200;

export function MultiSelect({ label, chosen, options, onChange }: MultiSelectProps) {
  const nameOf = (value: string) => options.find((option) => option.value === value)?.label ?? value;
  const [first] = chosen;
  const t = useText(text);
  return (
    <Popup
      set={chosen.length > 0}
      button={
        <>
          <span>{label}</span>
          {first !== undefined && (
            <strong className={styles.chosen}>
              {chosen.length === 1 ? visible(nameOf(first)) : t.chosen(chosen.length)}
            </strong>
          )}
          <Icon name="down" size={12} />
        </>
      }
    >
      {() => <Ticks label={label} chosen={chosen} options={options} onChange={onChange} />}
    </Popup>
  );
}

function Ticks({ label, chosen, options, onChange }: MultiSelectProps) {
  const t = useText(text);
  const f = useFormat();
  const [sought, setSought] = useState("");
  const absent = chosen.filter((value) => !options.some((option) => option.value === value));
  const all: readonly Option[] = [...absent.map((value) => ({ value })), ...options];
  const found = all.filter((option) => (option.label ?? option.value).toLowerCase().includes(sought.toLowerCase()));
  const toggle = (value: string) =>
    onChange(chosen.includes(value) ? chosen.filter((other) => other !== value) : [...chosen, value]);
  return (
    <fieldset className={styles.ticks}>
      <legend className="unseen">{label}</legend>
      {all.length > SEARCH_FROM && (
        <input
          type="text"
          aria-label={t.filter}
          placeholder={t.filter}
          value={sought}
          onChange={(event) => setSought(event.target.value)}
          className={styles.sought}
        />
      )}
      <div className={styles.list}>
        {found.slice(0, SHOWN_MOST).map((option) => (
          <label key={option.value}>
            <input type="checkbox" checked={chosen.includes(option.value)} onChange={() => toggle(option.value)} />
            <Text line>{option.label ?? option.value}</Text>
            {option.count !== undefined && <span className="faint">{f.count(option.count)}</span>}
          </label>
        ))}
        {found.length === 0 && <p className="faint">{t.noMatch}</p>}
      </div>
      {chosen.length > 0 && (
        <Button tone="quiet" small onClick={() => onChange([])}>
          {t.clear}
        </Button>
      )}
    </fieldset>
  );
}
