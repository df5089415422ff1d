/** All annotations of a session with author and time, and the forms for more. */
import type { UseMutationResult } from "@tanstack/react-query";
import type { FormEvent } from "react";
import { useId, useState } from "react";

import type { Annotation } from "../../../api/shapes";
import { Badge, Button, Section, Text, Time } from "../../../parts";
import { useText } from "../../../text";
import styles from "./annotations.module.css";
import { text } from "./text";
import type { Change } from "./use-annotations";

/** Changes them; null for a viewer. */
type Annotate = UseMutationResult<unknown, Error, Change> | null;

export function Notes({ items, annotate }: { items: readonly Annotation[]; annotate: Annotate }) {
  const t = useText(text);
  return (
    <>
      {items.length === 0 && <p className="faint">{t.nothing}</p>}
      <ol role="list" className={styles.list}>
        {items.map((item) => (
          <li key={item.id}>
            <Item item={item} annotate={annotate} />
          </li>
        ))}
      </ol>
      {annotate && <NewNote annotate={annotate} />}
      {annotate && <NewScore annotate={annotate} />}
    </>
  );
}

function Item({ item, annotate }: { item: Annotation; annotate: Annotate }) {
  const t = useText(text);
  const [editing, setEditing] = useState(false);
  const said = item.kind === "score" ? `${item.name ?? ""} = ${String(item.value)}` : item.kind === "label" ? item.name : null;
  return (
    <article className={styles.item}>
      <p className={styles.about}>
        <Badge>{t.kinds[item.kind]}</Badge>
        <Text>{t.sources[item.source](item.author)}</Text>
        <Time at={item.changed_at} />
        {item.changed_at !== item.created_at && <span className="faint">{t.edited}</span>}
      </p>
      {said !== null && (
        <p>
          <Text>{said}</Text>
        </p>
      )}
      {editing && annotate ? (
        <Editor item={item} annotate={annotate} onDone={() => setEditing(false)} />
      ) : (
        item.text !== null && (
          <p className={styles.text}>
            <Text>{item.text}</Text>
          </p>
        )
      )}
      {annotate && !editing && (
        <p className={styles.actions}>
          {item.kind === "note" && (
            <Button small tone="quiet" onClick={() => setEditing(true)}>
              {t.edit}
            </Button>
          )}
          <Button small tone="quiet" disabled={annotate.isPending} onClick={() => annotate.mutate({ remove: item.id })}>
            {t.remove}
          </Button>
        </p>
      )}
    </article>
  );
}

interface EditorProps {
  item: Annotation;
  annotate: NonNullable<Annotate>;
  onDone: () => void;
}

function Editor({ item, annotate, onDone }: EditorProps) {
  const t = useText(text);
  const [typed, setTyped] = useState(item.text ?? "");
  const save = (event: FormEvent) => {
    event.preventDefault();
    annotate.mutate({ edit: item.id, text: typed }, { onSuccess: onDone });
  };
  return (
    <form className={styles.form} onSubmit={save}>
      <textarea required maxLength={10_000} rows={4} value={typed} aria-label={t.edit} onChange={(event) => setTyped(event.target.value)} />
      <p className={styles.actions}>
        <Button type="submit" small tone="main" busy={annotate.isPending}>
          {t.save}
        </Button>
        <Button small onClick={onDone}>
          {t.cancel}
        </Button>
      </p>
    </form>
  );
}

function NewNote({ annotate }: { annotate: NonNullable<Annotate> }) {
  const t = useText(text);
  const id = useId();
  const [typed, setTyped] = useState("");
  const add = (event: FormEvent) => {
    event.preventDefault();
    annotate.mutate({ kind: "note", text: typed }, { onSuccess: () => setTyped("") });
  };
  return (
    <form className={styles.form} onSubmit={add}>
      <label htmlFor={id}>{t.newNote}</label>
      <textarea id={id} required maxLength={10_000} rows={3} value={typed} onChange={(event) => setTyped(event.target.value)} />
      <p className={styles.actions}>
        <Button type="submit" tone="main" disabled={typed.trim() === ""} busy={annotate.isPending}>
          {t.addNote}
        </Button>
      </p>
    </form>
  );
}

function NewScore({ annotate }: { annotate: NonNullable<Annotate> }) {
  const t = useText(text);
  const [form, setForm] = useState({ name: "", value: "", text: "" });
  const add = (event: FormEvent) => {
    event.preventDefault();
    const score = { kind: "score" as const, name: form.name, value: Number(form.value), text: form.text };
    annotate.mutate(score, { onSuccess: () => setForm({ name: "", value: "", text: "" }) });
  };
  const field = (name: keyof typeof form) => ({
    value: form[name],
    onChange: (event: { target: { value: string } }) => setForm({ ...form, [name]: event.target.value }),
  });
  return (
    <Section title={t.newScore}>
      <form className={styles.scoreForm} onSubmit={add}>
        <input required maxLength={64} aria-label={t.scoreName} placeholder={t.scoreName} {...field("name")} />
        <input required type="number" step="any" aria-label={t.scoreValue} placeholder={t.scoreValue} {...field("value")} />
        <input maxLength={10_000} aria-label={t.scoreComment} placeholder={t.scoreComment} {...field("text")} />
        <Button type="submit" busy={annotate.isPending}>
          {t.addScore}
        </Button>
      </form>
    </Section>
  );
}
