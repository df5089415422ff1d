/** Shows whether the page is up to date. */
import { useLiveState } from "../api/use-live";
import { useText } from "../text";
import styles from "./shell.module.css";
import { text } from "./text";

export function LiveMark() {
  const t = useText(text);
  const state = useLiveState();
  return (
    <span className={styles.live} data-state={state} title={t.liveHint} role="status">
      <svg width="10" height="10" viewBox="0 0 10 10" aria-hidden="true">
        {state === "offline" ? (
          <path d="M2 2l6 6M8 2l-6 6" stroke="currentColor" strokeWidth="1.8" strokeLinecap="round" />
        ) : (
          <circle cx="5" cy="5" r="3.2" fill={state === "connected" ? "currentColor" : "none"} stroke="currentColor" strokeWidth="1.6" />
        )}
      </svg>
      <span>{t.live[state]}</span>
    </span>
  );
}
