/** Shares a session: a file of chosen format and contents, and what is masked in it before it is saved. */
import { useState } from "react";
import { Link } from "wouter";

import { API } from "../../../api/client";
import { useGet, useIsAdmin } from "../../../api/queries";
import type { MaskedExcerpt, SessionDetail, ShareOptions, SharePreview } from "../../../api/shapes";
import { useFormat } from "../../../format";
import { Button, Copy, Dialog, LinkButton, Loaded, Section, Segmented, Text } from "../../../parts";
import { useText } from "../../../text";
import { address } from "../../../url";
import styles from "./share.module.css";
import { text } from "./text";

const FORMATS = ["html", "md", "jsonl"] as const;

export function ShareButton({ session }: { session: SessionDetail }) {
  const t = useText(text);
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button icon="download" title={t.hint} onClick={() => setOpen(true)}>
        <span className={styles.word}>{t.share}</span>
      </Button>
      {open && <ShareDialog session={session.key} close={() => setOpen(false)} />}
    </>
  );
}

/** The parameters of the file: what is not the default. */
function paramsOf({ format, secrets, hide_paths, tools }: ShareOptions) {
  return { format, full: secrets, hide_paths, tools: tools ? "" : "false" };
}

function ShareDialog({ session, close }: { session: string; close: () => void }) {
  const t = useText(text);
  const admin = useIsAdmin();
  const [options, setOptions] = useState<ShareOptions>({ format: "html", secrets: false, hide_paths: false, tools: true });
  const change = (changes: Partial<ShareOptions>) => setOptions({ ...options, ...changes });
  const { format, secrets } = options;
  return (
    <Dialog
      open
      wide
      onClose={close}
      title={t.title}
      actions={
        <>
          <Copy text={() => `${window.location.origin}/sessions/${session}`} label={t.link} hint={t.linkHint} />
          <LinkButton tone={secrets ? "danger" : "main"} icon="download" download href={address(`${API}/sessions/${session}/export`, paramsOf(options))}>
            {t.save}
          </LinkButton>
        </>
      }
    >
      <div className={styles.form}>
        <div>
          <Segmented
            label={t.format}
            choices={FORMATS.map((value) => ({ value, label: t.formats[value] }))}
            value={format}
            onChange={(value) => change({ format: value })}
          />
          <p className={styles.note}>{t.notes[format]}</p>
        </div>
        <div className={styles.options} role="group" aria-label={t.options}>
          {format !== "jsonl" && <Check label={t.tools} value={options.tools} set={(tools) => change({ tools })} />}
          <Check label={t.hidePaths} value={options.hide_paths} set={(hidden) => change({ hide_paths: hidden })} />
          {admin && <Check label={t.full} value={secrets} set={(all) => change({ secrets: all })} />}
        </div>
        {secrets ? <p className={styles.warning}>{t.fullNote}</p> : <Masked session={session} options={options} close={close} />}
      </div>
    </Dialog>
  );
}

function Check({ label, value, set }: { label: string; value: boolean; set: (value: boolean) => void }) {
  return (
    <label>
      <input type="checkbox" checked={value} onChange={(event) => set(event.target.checked)} /> {label}
    </label>
  );
}

/** What the server masks in this file. */
function Masked({ session, options, close }: { session: string; options: ShareOptions; close: () => void }) {
  const t = useText(text);
  const query = useGet<SharePreview>(`/sessions/${session}/share`, paramsOf({ ...options, secrets: false }), { keep: true });
  return (
    <div className={styles.masked}>
      <Section title={t.masked}>
        <Loaded query={query}>{(preview) => <Preview preview={preview} session={session} close={close} />}</Loaded>
      </Section>
    </div>
  );
}

function Preview({ preview, session, close }: { preview: SharePreview; session: string; close: () => void }) {
  const t = useText(text);
  const f = useFormat();
  return (
    <>
      <p role="status">
        {preview.masked === 0 ? t.nothing : t.count(f.count(preview.masked), preview.masked === 1)}{" "}
        <span className="faint">{f.size(preview.bytes)}</span>
      </p>
      <div className={styles.kinds}>
        {preview.kinds.map(({ kind, count }) => {
          const places = preview.places.filter((place) => place.kind === kind);
          return (
            <details key={kind}>
              <summary>
                <Text mono>{kind}</Text>
                <span>{f.count(count)}</span>
              </summary>
              <ul role="list" className={styles.places}>
                {places.map((place, index) => (
                  // The places of a preview do not change: the index is the key.
                  // oxlint-disable-next-line react/no-array-index-key
                  <Place key={index} place={place} session={session} close={close} />
                ))}
                {count > places.length && <li className="faint">{t.more(f.count(count - places.length))}</li>}
              </ul>
            </details>
          );
        })}
      </div>
      <p className={styles.note}>{t.limits}</p>
    </>
  );
}

function Place({ place, session, close }: { place: MaskedExcerpt; session: string; close: () => void }) {
  const t = useText(text);
  return (
    <li className={styles.place}>
      {place.span_id === null ? (
        <Text className="faint">{place.where}</Text>
      ) : (
        <Link href={`/sessions/${session}?span=${place.span_id}`} title={t.openSpan} onClick={close}>
          <Text>{place.where}</Text>
        </Link>
      )}
      <span className={styles.excerpt} dir="auto">
        <Text none="">{place.before}</Text>
        <mark>{`[masked:${place.kind}]`}</mark>
        <Text none="">{place.after}</Text>
      </span>
    </li>
  );
}
