/** Actions for a destination: pause, send again, mark as delivered, backfill. */
import type { ReactNode } from "react";
import { useState } from "react";

import { useIsAdmin } from "../../api/queries";
import type { Destination, ExportChange } from "../../api/shapes";
import { useFormat } from "../../format";
import { Button, Confirm, Icon } from "../../parts";
import { useText } from "../../text";
import { Earlier } from "./earlier";
import styles from "./exports.module.css";
import { text } from "./text";
import { useChange } from "./use-change";

export function Controls({ row }: { row: Destination }) {
  const t = useText(text);
  const [asking, setAsking] = useState(false);
  const pausing = useChange<Destination>(row, row.paused ? "resume" : "pause", (after) =>
    after.paused ? t.paused(row.name) : t.resumed(row.name),
  );
  return (
    <>
      <Button small tone="quiet" onClick={() => setAsking(true)}>
        {t.earlier}
      </Button>
      <Button small tone={row.paused ? "main" : "plain"} busy={pausing.isPending} onClick={() => pausing.mutate()}>
        {row.paused ? t.resume : t.pause}
      </Button>
      {asking && <Earlier row={row} onClose={() => setAsking(false)} />}
    </>
  );
}

interface TroubleProps {
  row: Destination;
  /** Its spans are listed. */
  open: boolean;
  onShow: () => void;
}

export function Refused({ row, open, onShow }: TroubleProps) {
  const t = useText(text);
  const f = useFormat();
  const again = useChange<ExportChange, { states: string[] }>(row, "retry", ({ spans }) => t.queuedAgain(spans));
  return (
    <Trouble says={t.refusedNote(f.count(row.refused))} open={open} onShow={onShow} bad>
      <Button small busy={again.isPending} onClick={() => again.mutate({ states: ["refused"] })}>
        {t.again}
      </Button>
    </Trouble>
  );
}

export function Unknown({ row, open, onShow }: TroubleProps) {
  const t = useText(text);
  const f = useFormat();
  const [wish, setWish] = useState<"accept" | "retry" | null>(null);
  return (
    <Trouble says={t.unknownNote(f.count(row.unknown))} open={open} onShow={onShow}>
      <Button small onClick={() => setWish("accept")}>
        {t.arrived}
      </Button>
      <Button small tone="quiet" onClick={() => setWish("retry")}>
        {t.again}
      </Button>
      {wish === "accept" && <Arrived row={row} onClose={() => setWish(null)} />}
      {wish === "retry" && <Again row={row} onClose={() => setWish(null)} />}
    </Trouble>
  );
}

/** Decisions for the user, with their actions. */
function Trouble(props: { says: string; open: boolean; onShow: () => void; bad?: boolean; children: ReactNode }) {
  const t = useText(text);
  const admin = useIsAdmin();
  return (
    <div className={styles.trouble} data-bad={props.bad}>
      <Icon name="warn" />
      <span>{props.says}</span>
      <div className={styles.ways}>
        <Button small tone="quiet" aria-expanded={props.open} onClick={props.onShow}>
          {props.open ? t.hide : t.show}
        </Button>
        {admin && props.children}
      </div>
    </div>
  );
}

function Arrived({ row, onClose }: { row: Destination; onClose: () => void }) {
  const t = useText(text);
  const accepting = useChange<ExportChange>(row, "accept", ({ spans }) => t.accepted(spans), true);
  return (
    <Confirm
      open
      title={t.arrivedTitle(row.name)}
      yes={t.arrived}
      busy={accepting.isPending}
      error={accepting.error}
      onYes={() => accepting.mutate(undefined, { onSuccess: onClose })}
      onClose={onClose}
    >
      {t.arrivedWhat}
    </Confirm>
  );
}

function Again({ row, onClose }: { row: Destination; onClose: () => void }) {
  const t = useText(text);
  const again = useChange<ExportChange, { states: string[] }>(row, "retry", ({ spans }) => t.queuedAgain(spans), true);
  return (
    <Confirm
      open
      danger
      title={t.againTitle(row.name)}
      yes={t.again}
      busy={again.isPending}
      error={again.error}
      onYes={() => again.mutate({ states: ["unknown"] }, { onSuccess: onClose })}
      onClose={onClose}
    >
      {t.againWhat}
    </Confirm>
  );
}
