/** The dialog for a backfill: since which day. */
import { useId, useState } from "react";

import type { Backfill, Destination } from "../../api/shapes";
import { Button, Dialog, Failed } from "../../parts";
import { useText } from "../../text";
import styles from "./exports.module.css";
import { text } from "./text";
import { useChange } from "./use-change";

const DAYS = 30;

/** The date this many days ago, for a date field. */
function daysAgo(days: number): string {
  const then = new Date();
  then.setDate(then.getDate() - days);
  const pad = (number: number) => String(number).padStart(2, "0");
  return `${then.getFullYear()}-${pad(then.getMonth() + 1)}-${pad(then.getDate())}`;
}

export function Earlier({ row, onClose }: { row: Destination; onClose: () => void }) {
  const t = useText(text);
  const form = useId();
  const [day, setDay] = useState(() => daysAgo(DAYS));
  const [all, setAll] = useState(false);
  const looking = useChange<Backfill, { since: string }>(row, "backfill", ({ traces }) => t.looked(traces), true);
  return (
    <Dialog
      open
      title={t.earlierTitle(row.name)}
      onClose={onClose}
      actions={
        <Button tone="main" type="submit" form={form} busy={looking.isPending} disabled={!all && !day}>
          {t.look}
        </Button>
      }
    >
      <form
        id={form}
        className={styles.form}
        onSubmit={(event) => {
          event.preventDefault();
          looking.mutate({ since: all ? "all" : day }, { onSuccess: onClose });
        }}
      >
        <p className="soft">{t.earlierWhat}</p>
        <label>
          {t.day} <input type="date" value={day} disabled={all} onChange={(event) => setDay(event.target.value)} />
        </label>
        <label>
          <input type="checkbox" checked={all} onChange={(event) => setAll(event.target.checked)} />
          {t.all}
        </label>
        {looking.error && <Failed error={looking.error} title={t.earlierTitle(row.name)} />}
      </form>
    </Dialog>
  );
}
