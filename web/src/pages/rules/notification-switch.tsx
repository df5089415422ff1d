/** Switches notifications of this browser; the browser asks only after the button was pressed. */
import { useSyncExternalStore } from "react";

import { notifications, switchNotifications } from "../../api/notifications";
import { Button, Icon } from "../../parts";
import { useText } from "../../text";
import styles from "./rules.module.css";
import { text } from "./text";

export function NotificationSwitch() {
  const t = useText(text);
  const state = useSyncExternalStore(notifications.subscribe, notifications.read);
  const on = state === "on";
  return (
    <p className={styles.notify}>
      <Icon name="rules" />
      {state === "unsupported" && <span>{t.notifyHere}</span>}
      {state === "denied" && <span>{t.notifyDenied}</span>}
      {state !== "unsupported" && state !== "denied" && (
        <>
          <span>{t.notify}</span>
          <Button small aria-pressed={on} onClick={() => void switchNotifications(!on)}>
            {on ? t.notifyOff : t.notifyOn}
          </Button>
        </>
      )}
    </p>
  );
}
