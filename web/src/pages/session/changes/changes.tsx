/** Every file that the session changed, with its edits in order as unified diffs; each file and all of them as a patch. */
import { useEffect, useRef, useState } from "react";

import { API, ProblemError } from "../../../api/client";
import { useGet } from "../../../api/queries";
import type { FileEdit, FileEdits, SessionChanges } from "../../../api/shapes";
import { useFormat } from "../../../format";
import { Badge, Button, Copy, DiffHunks, Empty, LinkButton, Loaded, OpenFile, PathText, copy, toast, visible } from "../../../parts";
import { useShortcuts } from "../../../shell/shortcuts";
import { useText } from "../../../text";
import { address } from "../../../url";
import { useRefetchOnLive } from "../../usage/throttle";
import { Lines } from "../outline/outline";
import { useSessionTools } from "../session-context";
import styles from "./changes.module.css";
import { text } from "./text";

/** A working session is read anew at this interval, in milliseconds: all of its lines are read. */
const EVERY = 20_000;
/** Edits of a file that are shown at first. */
const EDITS = 20;

interface ChangesProps {
  session: string;
  /** The file that is in view; "" for none. */
  file: string;
  onFile: (path: string) => void;
  onSpan: (id: string) => void;
}

function patchAddress(session: string, path: string | null): string {
  return address(`${API}/sessions/${session}/changes.patch`, { path });
}

/** A patch, whole, as the server writes it. */
async function patchOf(session: string, path: string | null): Promise<string> {
  const response = await fetch(patchAddress(session, path), { credentials: "same-origin", cache: "no-store" });
  if (!response.ok) throw new ProblemError(response.status, response.statusText, response.statusText);
  return response.text();
}

export function Changes(props: ChangesProps) {
  const query = useGet<SessionChanges>(`/sessions/${props.session}/changes`, {}, { keep: true });
  const { live } = useSessionTools();
  useRefetchOnLive(() => live && query.refetch(), EVERY);
  return (
    <div className={styles.changes}>
      <Loaded query={query} lines={12}>
        {(found) => (found.files.length === 0 ? <Nothing /> : <Found {...props} found={found} />)}
      </Loaded>
    </div>
  );
}

function Nothing() {
  const t = useText(text);
  return (
    <Empty icon="files" title={t.none}>
      <p className="faint">{t.noneNote}</p>
    </Empty>
  );
}

function Found({ session, file, onFile, onSpan, found }: ChangesProps & { found: SessionChanges }) {
  const t = useText(text);
  const f = useFormat();
  const { files } = found;
  const at = files.findIndex((each) => each.path === file);
  const go = (by: 1 | -1) => onFile(files[Math.min(Math.max(at + by, 0), files.length - 1)]?.path ?? "");
  const copyAll = () =>
    void copy(() => patchOf(session, null)).then(
      () => toast(t.patchCopied),
      (error: unknown) => toast(String(error), { failed: true }),
    );
  useShortcuts([
    { keys: "j", does: t.nextFile, run: () => go(1) },
    { keys: "k", does: t.previousFile, run: () => go(-1) },
    { keys: "y", does: t.copyKey, run: copyAll },
  ]);
  return (
    <>
      <header className={styles.head}>
        <span>
          {t.summary(f.count(files.length), f.count(found.edits))} <Lines added={found.added} removed={found.removed} />
        </span>
        <Copy label={t.copyAll} text={() => patchOf(session, null)} />
        <LinkButton small download icon="download" href={patchAddress(session, null)}>
          {t.download}
        </LinkButton>
      </header>
      <div className={styles.columns}>
        <nav className={styles.list} aria-label={t.label}>
          <ol role="list">
            {files.map((each) => (
              <li key={each.path}>
                <button type="button" aria-current={each.path === file ? "true" : undefined} onClick={() => onFile(each.path)}>
                  <PathText>{each.path}</PathText>
                  <Lines added={each.added} removed={each.removed} />
                </button>
              </li>
            ))}
          </ol>
        </nav>
        <div className={styles.files}>
          {files.map((each) => (
            <File key={each.path} session={session} file={each} current={each.path === file} onSpan={onSpan} />
          ))}
        </div>
      </div>
    </>
  );
}

interface FileProps {
  session: string;
  file: FileEdits;
  current: boolean;
  onSpan: (id: string) => void;
}

function File({ session, file, current, onSpan }: FileProps) {
  const t = useText(text);
  const f = useFormat();
  const [most, setMost] = useState(EDITS);
  const section = useRef<HTMLElement>(null);
  useEffect(() => {
    if (current) section.current?.scrollIntoView({ block: "start" });
  }, [current]);
  return (
    <section ref={section} className={styles.file} aria-label={visible(file.path)}>
      <header>
        <h2>
          <PathText>{file.path}</PathText>
        </h2>
        {file.edits.some((edit) => edit.created) && <Badge>{t.created}</Badge>}
        {file.edits.at(-1)?.deleted && <Badge tone="failed">{t.deleted}</Badge>}
        <Lines added={file.added} removed={file.removed} />
        <span className={styles.actions}>
          <OpenFile path={file.full_path} />
          <Copy label={t.copyPatch} text={() => patchOf(session, file.path)} />
        </span>
      </header>
      {file.edits.slice(0, most).map((edit) => (
        <OneEdit key={edit.number} file={file} edit={edit} onSpan={onSpan} />
      ))}
      {file.edits.length > most && (
        <Button small tone="quiet" onClick={() => setMost(most * 5)}>
          {t.more(f.count(file.edits.length - most))}
        </Button>
      )}
    </section>
  );
}

function OneEdit({ file, edit, onSpan }: { file: FileEdits; edit: FileEdit; onSpan: (id: string) => void }) {
  const t = useText(text);
  const f = useFormat();
  const { span_id: span } = edit;
  return (
    <article className={styles.edit}>
      <p>
        {span === null ? (
          t.edit(f.count(edit.number))
        ) : (
          <button type="button" title={t.toSpan} onClick={() => onSpan(span)}>
            {t.edit(f.count(edit.number))}
          </button>
        )}
        <span>{f.timeOfDay(edit.at)}</span>
        <Lines added={edit.added} removed={edit.removed} />
        {edit.diff !== "" && !edit.numbered && <span>{t.unnumbered}</span>}
      </p>
      {edit.diff === "" ? (
        <p>{edit.cut ? t.cut : t.noDiff}</p>
      ) : (
        <DiffHunks diff={edit.diff} numbered={edit.numbered} label={t.diffOf(visible(file.path))} />
      )}
    </article>
  );
}
