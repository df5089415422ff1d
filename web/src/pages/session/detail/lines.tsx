/** The raw lines of a span: position and content. */
import { useState } from "react";

import { API } from "../../../api/client";
import { useGet } from "../../../api/queries";
import type { EventDetail, LineRef } from "../../../api/shapes";
import { useFormat } from "../../../format";
import { Button, Code, Copy, LinkButton, Loaded, PathText, Text } from "../../../parts";
import { useText } from "../../../text";
import { text } from "../text";
import styles from "./pane.module.css";

/** A tool may span thousands of lines; more are shown on request. */
const STEP = 50;

export function Lines({ lines }: { lines: readonly LineRef[] }) {
  const t = useText(text).pane;
  const f = useFormat();
  const [shown, setShown] = useState(STEP);
  if (lines.length === 0) return <p className="faint">{t.noLines}</p>;
  return (
    <>
      <p className="faint">{t.lines(f.count(lines.length))}</p>
      <ol role="list" className={styles.lines}>
        {lines.slice(0, shown).map((line) => (
          <li key={line.event_no}>
            <Line line={line} />
          </li>
        ))}
      </ol>
      {shown < lines.length && (
        <Button small tone="quiet" onClick={() => setShown(shown + STEP * 4)}>
          {f.count(lines.length - shown)} …
        </Button>
      )}
    </>
  );
}

function Line({ line }: { line: LineRef }) {
  const t = useText(text).pane;
  const f = useFormat();
  const [open, setOpen] = useState(false);
  return (
    <div className={styles.line}>
      <div className={styles.lineHead}>
        <Text mono>{line.type}</Text>
        <span className="faint">{f.timeOfDay(line.at)}</span>
        <Copy text={`${line.file}:${line.offset}`} hint={t.copyPlace} />
      </div>
      <PathText>{line.file}</PathText>
      <div className={styles.lineFoot}>
        <span className="faint">{t.offset(f.count(line.offset), f.size(line.length))}</span>
        <Button small tone="quiet" aria-expanded={open} icon={open ? "up" : "down"} onClick={() => setOpen(!open)}>
          {open ? t.hideLine : t.showLine}
        </Button>
        <LinkButton small tone="quiet" download icon="download" href={`${API}/events/${line.event_no}/raw`}>
          {t.download}
        </LinkButton>
      </div>
      {open && <Whole line={line} />}
    </div>
  );
}

function Whole({ line }: { line: LineRef }) {
  const t = useText(text).pane;
  const f = useFormat();
  const query = useGet<EventDetail>(`/events/${line.event_no}`, {}, { fresh: Number.POSITIVE_INFINITY });
  return (
    <Loaded query={query} lines={3}>
      {(event) => (
        <>
          <Code text={event.raw} label={t.line(f.count(line.event_no))} />
          {event.cut && <p className="faint">{t.cut}</p>}
        </>
      )}
    </Loaded>
  );
}
