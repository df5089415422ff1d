/** The lines of the session as they were written, by pages from any line on. */
import type { FormEvent } from "react";
import { useState } from "react";

import { get } from "../../../api/client";
import { useGet, usePages } from "../../../api/queries";
import type { EventDetail, SessionLine, SessionLines } from "../../../api/shapes";
import { useFormat } from "../../../format";
import { Button, Code, Copy, Empty, Failed, IconButton, Loading, PathText, Text, visible } from "../../../parts";
import { useShortcuts } from "../../../shell/shortcuts";
import { useText } from "../../../text";
import { numberOf, useParams } from "../../../url";
import { useRefetchOnLive } from "../../usage/throttle";
import { useSessionTools } from "../session-context";
import styles from "./raw.module.css";
import { text } from "./text";

const PAGE = 50;
const CHARS = 600;
const FIELD = "raw-line";
const EVERY = 10_000;

interface RawProps {
  session: string;
  onSpan: (id: string) => void;
}

export function Raw({ session, onSpan }: RawProps) {
  const t = useText(text);
  const f = useFormat();
  const params = useParams();
  const start = Math.max(Math.floor(params.number("line") ?? 1), 1);
  const { live } = useSessionTools();
  const pages = usePages<SessionLine, SessionLines>(`/sessions/${session}/lines`, { start, limit: PAGE, chars: CHARS });
  useRefetchOnLive(() => live && pages.refetch(), EVERY);
  useShortcuts([{ keys: "#", does: t.focusKey, run: () => document.getElementById(FIELD)?.focus() }]);
  const total = pages.first?.total ?? 0;
  const go = (line: number) => params.change({ line: line <= 1 ? null : line });
  if (pages.first && total === 0) return <Empty icon="files" title={t.none} />;
  return (
    <div className={styles.raw}>
      <div className={styles.head}>
        {pages.first && <span>{t.summary(f.count(total))}</span>}
        <GoTo total={total} onGo={go} />
        {start > 1 && (
          <Button small icon="up" onClick={() => go(start - PAGE)}>
            {t.earlier}
          </Button>
        )}
      </div>
      {!pages.first && (pages.error ? <Failed error={pages.error} retry={() => void pages.refetch()} /> : <Loading lines={12} />)}
      <ol role="list" aria-label={t.label} className={styles.lines}>
        {pages.items.map((line) => (
          <li key={line.event_no}>
            <Line line={line} onSpan={onSpan} />
          </li>
        ))}
      </ol>
      {pages.hasNextPage && (
        <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
          {t.more}
        </Button>
      )}
    </div>
  );
}

function GoTo({ total, onGo }: { total: number; onGo: (line: number) => void }) {
  const t = useText(text);
  const f = useFormat();
  const [typed, setTyped] = useState("");
  const number = numberOf(typed);
  const wrong = number !== null && (number < 1 || number > total || !Number.isInteger(number));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (number !== null && !wrong) onGo(number);
  };
  return (
    <form className={styles.goTo} onSubmit={submit}>
      <label htmlFor={FIELD}>{t.goTo}</label>
      <input id={FIELD} inputMode="numeric" size={8} autoComplete="off" value={typed} onChange={(event) => setTyped(event.target.value)} aria-invalid={wrong || undefined} />
      <Button small type="submit" disabled={number === null || wrong}>
        {t.go}
      </Button>
      {wrong && <span role="status">{t.noLine(f.count(total))}</span>}
    </form>
  );
}

async function wholeLine(line: SessionLine): Promise<string> {
  return line.cut ? (await get<EventDetail>(`/events/${line.event_no}`)).raw : line.raw;
}

function Line({ line, onSpan }: { line: SessionLine; onSpan: (id: string) => void }) {
  const t = useText(text);
  const f = useFormat();
  const [open, setOpen] = useState(false);
  const { span_id: span } = line;
  return (
    <article className={styles.line} aria-label={t.line(f.count(line.number))}>
      <header>
        <span className={styles.number}>{f.count(line.number)}</span>
        <Text mono>{line.type}</Text>
        <span className="faint">{f.timeOfDay(line.at)}</span>
        <span className={`faint ${styles.file}`} title={visible(line.file)}>
          <PathText>{line.file}</PathText>
        </span>
        <span className={`faint ${styles.place}`}>
          {t.place(f.count(line.offset))}, {f.size(line.length)}
        </span>
        <span className={styles.actions}>
          {line.cut && <IconButton icon={open ? "up" : "down"} label={open ? t.less : t.whole} aria-expanded={open} onClick={() => setOpen(!open)} />}
          {span !== null && <IconButton icon="chat" label={t.toSpan} onClick={() => onSpan(span)} />}
          <Copy hint={t.copyLine} text={() => wholeLine(line)} />
        </span>
      </header>
      {open ? <Whole line={line} /> : <Code bare text={line.raw + (line.cut ? "…" : "")} label={t.line(f.count(line.number))} language="json" />}
    </article>
  );
}

function Whole({ line }: { line: SessionLine }) {
  const t = useText(text);
  const f = useFormat();
  const query = useGet<EventDetail>(`/events/${line.event_no}`, {}, { fresh: Number.POSITIVE_INFINITY });
  if (query.error) return <Failed error={query.error} retry={() => void query.refetch()} />;
  return <Code bare text={query.data?.raw ?? line.raw} label={t.line(f.count(line.number))} language="json" />;
}
