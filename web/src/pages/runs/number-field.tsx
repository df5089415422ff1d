/** The number of a store, member or customer: reported after typing stops, and only if it is valid. */
import { useCallback, useEffect, useId, useRef, useState } from "react";

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
  /** There must be one, from 1 on. */
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
    // The value changed from outside; our own change must not undo later typing.
    if (value !== told.current) setTyped(value);
    told.current = value;
  }, [value]);
  const number = typed.trim() === "" ? "" : wholeNumber(typed);
  const wrong = number === null || (required && Number(number) < 1);
  const tell = useCallback((next: string) => {
    if (next === told.current) return;
    told.current = next;
    change.current(next);
  }, []);
  useEffect(() => {
    if (wrong) return undefined;
    const timer = window.setTimeout(() => tell(number), REST);
    return () => window.clearTimeout(timer);
  }, [number, wrong, tell]);
  const leave = () => {
    // What is seen is what counts: nothing is left unsaid, and what is needed is not left empty.
    if (!wrong) tell(number);
    else if (required) setTyped(value);
  };
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
        onBlur={leave}
      />
      {wrong && (
        <span id={hint} className={styles.wrong}>
          {t.wholeNumber}
        </span>
      )}
    </label>
  );
}
