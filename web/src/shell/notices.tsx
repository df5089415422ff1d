/** Notices above every page: the server is unreachable, or it was updated. */
import { useState } from "react";

import { useReachable } from "../api/reach";
import { live, useLiveState, useLiveVersion } from "../api/use-live";
import { Button } from "../parts/button";
import { Icon } from "../parts/icon";
import { useText } from "../text";
import { DemoNotice } from "./demo";
import styles from "./shell.module.css";
import { text } from "./text";

export function Notices() {
  return (
    <div role="status" className={styles.notices}>
      <Unreachable />
      <Updated />
      <DemoNotice />
    </div>
  );
}

function Unreachable() {
  const t = useText(text);
  const state = useLiveState();
  const reachable = useReachable();
  if (state !== "offline" && (reachable || state === "connected")) return null;
  return (
    <div className={styles.notice} data-tone="failed">
      <Icon name="warn" />
      <span>{t.unreachable}</span>
      <Button small onClick={live.start}>
        {t.tryNow}
      </Button>
    </div>
  );
}

/** The page belongs to the first version it connected to; another version means other code. */
function Updated() {
  const t = useText(text);
  const version = useLiveVersion();
  const [first, setFirst] = useState<string | null>(null);
  if (first === null && version !== null) setFirst(version);
  if (first === null || version === null || version === first) return null;
  return (
    <div className={styles.notice}>
      <Icon name="refresh" />
      <span>{t.updated}</span>
      <Button small onClick={() => window.location.reload()}>
        {t.reload}
      </Button>
    </div>
  );
}
