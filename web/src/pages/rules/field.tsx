/** A text of the form, with its name and a hint. */
import { useId } from "react";

import { Select } from "../../parts";
import styles from "./rules.module.css";

interface FieldProps {
  label: string;
  hint?: string;
  value: string;
  /** Hidden while it is typed. */
  secret?: boolean;
  /** Of several lines. */
  lines?: boolean;
  onChange: (value: string) => void;
}

export function Field({ label, hint, value, secret, lines, onChange }: FieldProps) {
  const id = useId();
  const shared = { id: `${id}-input`, spellCheck: false, value, "aria-describedby": hint ? id : undefined };
  return (
    <div className={styles.field}>
      <label htmlFor={`${id}-input`}>{label}</label>
      {lines ? (
        <textarea {...shared} rows={3} onChange={(event) => onChange(event.target.value)} />
      ) : (
        <input
          {...shared}
          type={secret ? "password" : "text"}
          autoComplete={secret ? "new-password" : "off"}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
      {hint && (
        <span id={id} className="faint">
          {hint}
        </span>
      )}
    </div>
  );
}

interface ChoiceFieldProps {
  label: string;
  value: string;
  options: readonly { value: string; label: string }[];
  none?: string;
  onChange: (value: string) => void;
}

/** One of many, with its name above like that of a text. */
export function ChoiceField(props: ChoiceFieldProps) {
  return (
    <div className={styles.field}>
      <span aria-hidden="true">{props.label}</span>
      <Select bare {...props} />
    </div>
  );
}
