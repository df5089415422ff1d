/** The number of a store, a member, a customer: told when typing rests, and only where it is one. */
import { useEffect, useId, useRef, useState } from "react";

import { useText } from "../../text";
import styles from "./filters.module.css";
import { text } from "./text";
import { wholeNumber } from "./whole-number";

interface NumberFieldProps {
  label: string;
  /** "" for none. */
  value: string;
  onChange: (value: string) => void;
  disabled?: boolean;
  /** There must be one. */
  required?: boolean;
}

const REST = 300;

export function NumberField({ label, value, onChange, disabled, required }: NumberFieldProps) {
  const t = useText(text);
  const hint = useId();
  const [typed, setTyped] = useState(value);
  const told = useRef(value);
  const change = useRef(onChange);
  useEffect(() => {
    change.current = onChange;
  });
  useEffect(() => {
    // Another value from outside; our own echo must not undo what was typed since.
    if (value !== told.current) setTyped(value);
    told.current = value;
  }, [value]);
  const meant = typed.trim() === "" ? "" : wholeNumber(typed);
  useEffect(() => {
    if (meant === null || meant === told.current) return undefined;
    const timer = window.setTimeout(() => {
      told.current = meant;
      change.current(meant);
    }, REST);
    return () => window.clearTimeout(timer);
  }, [meant]);
  const wrong = meant === null || (required && meant === "");
  return (
    <label className={styles.field} data-set={value !== "" && !required ? true : undefined}>
      <span>{label}</span>
      <input
        type="text"
        inputMode="numeric"
        autoComplete="off"
        value={typed}
        disabled={disabled}
        aria-invalid={wrong || undefined}
        aria-describedby={wrong ? hint : undefined}
        onChange={(event) => setTyped(event.target.value)}
      />
      {wrong && (
        <span id={hint} className={styles.wrong}>
          {t.wholeNumber}
        </span>
      )}
    </label>
  );
}
