/** What a tool was called with, as people read it: a command as one types it, other arguments by name. */
import { useMemo } from "react";

import type { TextPiece } from "../../../api/shapes";
import { Code, Copy, Failed, JsonView, OpenFile, Text, visible } from "../../../parts";
import { useText } from "../../../text";
import { useLongText } from "../data/long-text";
import type { Arguments } from "../model/call-arguments";
import { besideCommand, commandOf, fieldsOf } from "../model/call-arguments";
import { useSessionTools } from "../session-context";
import { text } from "../text";
import styles from "./call.module.css";
import { text as ownText } from "./text";

export function Call({ span, piece }: { span: string; piece: TextPiece }) {
  const t = useText(text);
  const own = useText(ownText);
  const { key } = useSessionTools();
  const long = useLongText(key, span, piece);
  const fields = useMemo(() => fieldsOf(long.text), [long.text]);
  const more = { total: long.onMore ? long.total : undefined, onMore: long.onMore, busy: long.busy };
  const command = commandOf(fields);
  return (
    <>
      {fields === null || Object.keys(fields).length === 0 ? (
        <Code text={long.text} label={t.arguments} {...more} whole={long.whole} />
      ) : command !== null ? (
        <>
          <Code text={`$ ${command}`} label={own.command} language="bash" {...more} whole={() => wholeCommand(long.whole)} />
          <Fields fields={Object.fromEntries(besideCommand(fields))} />
        </>
      ) : (
        <div className={styles.call}>
          <Fields fields={fields} />
          <span className={styles.copy}>
            <Copy text={long.whole} />
          </span>
        </div>
      )}
      {command === null && fields !== null && long.onMore && (
        <button type="button" className={styles.more} disabled={long.busy} onClick={long.onMore}>
          {own.moreArguments}
        </button>
      )}
      {long.error ? <Failed error={long.error} title={t.loadFailed} retry={long.onMore} /> : null}
    </>
  );
}

async function wholeCommand(whole: () => Promise<string>): Promise<string> {
  const json = await whole();
  return commandOf(fieldsOf(json)) ?? json;
}

const LONG = 120;
const PATHS = new Set(["file_path", "path", "notebook_path", "absolute_path", "filePath"]);

function Fields({ fields }: { fields: Arguments }) {
  const entries = Object.entries(fields).filter(([, value]) => value !== null && value !== "");
  if (entries.length === 0) return null;
  return (
    <dl className={styles.fields}>
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt>
            <Text>{name}</Text>
          </dt>
          <dd>
            <Value name={name} value={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Value({ name, value }: { name: string; value: unknown }) {
  if (typeof value === "object" && value !== null) return <JsonView value={value} open={1} />;
  const said = String(value);
  if (said.length > LONG || said.includes("\n")) return <Code text={said} label={visible(name)} />;
  return (
    <>
      <Text mono none="–">
        {said}
      </Text>
      {PATHS.has(name) && <OpenFile path={said} />}
    </>
  );
}
