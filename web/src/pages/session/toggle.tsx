/** Something that is on or off. */
import styles from "./toolbar.module.css";

interface ToggleProps {
  on: boolean;
  label: string;
  title?: string;
  onChange: (on: boolean) => void;
}

export function Toggle({ on, label, title, onChange }: ToggleProps) {
  return (
    <button type="button" className={styles.toggle} aria-pressed={on} title={title} onClick={() => onChange(!on)}>
      {label}
    </button>
  );
}
