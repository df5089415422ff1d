/** The outline beside a session: turns with their cost, what failed, files that were changed, notes. Each leads there. */
import type { ReactNode } from "react";
import { useEffect, useMemo, useRef, useState } from "react";

import { useGet } from "../../../api/queries";
import type { SessionChanges, SessionDetail } from "../../../api/shapes";
import { useFormat } from "../../../format";
import { modelName } from "../../../models";
import { Icon, PathText, Text, visible } from "../../../parts";
import { useText } from "../../../text";
import { useAnnotations } from "../annotations/use-annotations";
import type { Spans } from "../data/use-spans";
import type { TextCache } from "../data/text-cache";
import { TextsContext, useTexts, useWanted } from "../data/use-texts";
import { oneLine, summaryOf } from "../model/call-arguments";
import { outlineErrors, outlineTurns } from "../model/outline";
import { SumCost } from "../span-words";
import styles from "./outline.module.css";
import { text } from "./text";

/** Entries that are listed at first. */
const TURNS = 300;
const ERRORS = 50;
const FILES = 50;
/** Files are listed without being asked for in sessions with at most so many lines: all of them are read. */
const LINES = 20_000;

export interface OutlineProps {
  spans: Spans;
  session: SessionDetail | undefined;
  cache: TextCache;
  /** The row of the turn that is read. */
  turn: number;
  onGo: (id: string) => void;
  onFile: (path: string | null) => void;
}

export function Outline({ spans, session, cache, turn, onGo, onFile }: OutlineProps) {
  const t = useText(text);
  return (
    <TextsContext value={cache}>
      <nav className={styles.outline} aria-label={t.name}>
        <Turns spans={spans} cache={cache} turn={turn} onGo={onGo} />
        {session && session.outcomes?.files !== 0 && <Files session={session} onFile={onFile} />}
        {session && session.marks.notes > 0 && <NoteList session={session} onGo={onGo} />}
      </nav>
    </TextsContext>
  );
}

function Group({ title, note, children }: { title: string; note?: ReactNode; children: ReactNode }) {
  return (
    <section className={styles.group}>
      <h2>
        {title} {note !== undefined && <span className="faint">{note}</span>}
      </h2>
      {children}
    </section>
  );
}

type GoProps = Pick<OutlineProps, "spans" | "cache" | "turn" | "onGo">;

function Turns({ spans, cache, turn, onGo }: GoProps) {
  const t = useText(text);
  const f = useFormat();
  const [most, setMost] = useState(TURNS);
  const turns = useMemo(() => outlineTurns(spans.table), [spans]);
  const errors = useMemo(() => outlineErrors(spans.table, ERRORS), [spans]);
  const shown = turns.slice(0, most);
  useWanted(cache, useMemo(() => [...shown, ...errors].map((row) => spans.table.ids[row] ?? ""), [spans, shown, errors]));
  return (
    <>
      {errors.length > 0 && (
        <Group title={t.errors} note={f.count(spans.sums.all().errors)}>
          <ol role="list">
            {errors.map((row) => (
              <li key={row}>
                <ErrorEntry spans={spans} row={row} onGo={onGo} />
              </li>
            ))}
          </ol>
        </Group>
      )}
      <Group title={t.turns} note={f.count(turns.length)}>
        <ol role="list">
          {shown.map((row) => (
            <li key={row}>
              <TurnEntry spans={spans} row={row} current={row === turn} onGo={onGo} />
            </li>
          ))}
        </ol>
        {turns.length > most && (
          <button type="button" className={styles.more} onClick={() => setMost(most * 4)}>
            {t.more(f.count(turns.length - most))}
          </button>
        )}
      </Group>
    </>
  );
}

interface EntryProps {
  spans: Spans;
  row: number;
  onGo: (id: string) => void;
}

function TurnEntry({ spans, row, current, onGo }: EntryProps & { current: boolean }) {
  const t = useText(text);
  const f = useFormat();
  const { table } = spans;
  const id = table.ids[row] ?? "";
  const prompt = useTexts(id)?.find((piece) => piece.kind === "prompt")?.text ?? "";
  const sums = spans.sums.of(row);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (current) button.current?.scrollIntoView({ block: "nearest" });
  }, [current]);
  return (
    <button ref={button} type="button" className={styles.entry} aria-current={current ? "location" : undefined} onClick={() => onGo(id)}>
      <span className={styles.number}>
        <span className="unseen">{t.turn("")}</span>
        {f.count((table.turn[row] ?? 0) + 1)}
      </span>
      <span className={styles.words}>
        <Text none={table.titleOf(row) || "–"}>{oneLine(prompt)}</Text>
      </span>
      <span className={styles.cost}>
        {sums.errors > 0 && (
          <span className={styles.failed} title={t.failed(f.count(sums.errors))}>
            {f.count(sums.errors)}!
          </span>
        )}
        <SumCost sums={sums} />
      </span>
    </button>
  );
}

function ErrorEntry({ spans, row, onGo }: EntryProps) {
  const { table } = spans;
  const id = table.ids[row] ?? "";
  const pieces = useTexts(id);
  const asked = pieces?.find((piece) => piece.kind === "arguments")?.text;
  const said = pieces?.find((piece) => piece.kind === "error")?.text;
  return (
    <button type="button" className={styles.entry} onClick={() => onGo(id)}>
      <span className={styles.failed}>
        <Icon name="close" size={11} />
      </span>
      <span className={styles.words}>
        <Text>{`${table.toolOf(row) || table.titleOf(row) || modelName(table.models[row] ?? "")} ${asked ? summaryOf(asked) : oneLine(said ?? "")}`.trim()}</Text>
      </span>
    </button>
  );
}

function Files({ session, onFile }: { session: SessionDetail; onFile: OutlineProps["onFile"] }) {
  const t = useText(text);
  const f = useFormat();
  const small = session.events <= LINES;
  const query = useGet<SessionChanges>(`/sessions/${session.key}/changes`, {}, { when: small, keep: true, fresh: 30_000 });
  const { outcomes } = session;
  const files = query.data?.files ?? [];
  const count = Math.max(outcomes?.files ?? 0, files.length);
  if (count === 0) return null;
  return (
    <Group title={t.files} note={f.count(count)}>
      <ol role="list">
        {files.slice(0, FILES).map((file) => (
          <li key={file.path}>
            <button type="button" className={styles.entry} onClick={() => onFile(file.path)}>
              <span className={styles.words}>
                <PathText>{file.path}</PathText>
              </span>
              <Lines added={file.added} removed={file.removed} />
            </button>
          </li>
        ))}
      </ol>
      <button type="button" className={styles.more} onClick={() => onFile(null)}>
        {t.allChanges} <Lines added={query.data?.added ?? outcomes?.added ?? null} removed={query.data?.removed ?? outcomes?.removed ?? null} />
      </button>
    </Group>
  );
}

/** Added and removed lines; unknown ones as a question mark. */
export function Lines({ added, removed }: { added: number | null; removed: number | null }) {
  const f = useFormat();
  return (
    <span className={styles.lines}>
      <span className={styles.added}>+{added === null ? "?" : f.count(added)}</span> <span className={styles.removed}>−{removed === null ? "?" : f.count(removed)}</span>
    </span>
  );
}

function NoteList({ session, onGo }: { session: SessionDetail; onGo: (id: string) => void }) {
  const t = useText(text);
  const notes = useAnnotations(session).filter((each) => each.kind === "note");
  return (
    <Group title={t.notes}>
      <ul role="list">
        {notes.map((note) => (
          <li key={note.id}>
            {note.span_id === null ? (
              <p className={styles.note}>
                <Text>{note.text}</Text>
              </p>
            ) : (
              <button type="button" className={styles.entry} aria-label={visible(oneLine(note.text ?? ""))} onClick={() => onGo(note.span_id ?? "")}>
                <span className={styles.words}>
                  <Text>{oneLine(note.text ?? "")}</Text>
                </span>
              </button>
            )}
          </li>
        ))}
      </ul>
    </Group>
  );
}
