/** What is beside a session: its star, labels and scores in a row, notes in a drawer. Admins change them. */
import { useState } from "react";

import { useIsAdmin } from "../../../api/queries";
import type { Annotation, SessionDetail } from "../../../api/shapes";
import { Badge, Button, Drawer, Icon, IconButton, Popup, Text } from "../../../parts";
import { useShortcuts } from "../../../shell/shortcuts";
import { useText } from "../../../text";
import styles from "./annotations.module.css";
import { Notes } from "./notes";
import { text } from "./text";
import { useAnnotate, useAnnotations } from "./use-annotations";

export function Beside({ session }: { session: SessionDetail }) {
  const t = useText(text);
  const [open, setOpen] = useState(false);
  const admin = useIsAdmin();
  const { marks } = session;
  const items = useAnnotations(session);
  const annotate = useAnnotate(session.key);
  const remove = (found: Annotation | undefined) => found && annotate.mutate({ remove: found.id });
  const star = () => (marks.starred ? remove(items.find(({ kind }) => kind === "star")) : annotate.mutate({ kind: "star" }));
  useShortcuts([
    ...(admin ? [{ keys: "s", does: t.keys.star, run: () => void star() }] : []),
    { keys: "n", does: t.keys.notes, run: () => setOpen(true) },
  ]);
  const label = (name: string) => items.find((each) => each.kind === "label" && each.name === name);
  return (
    <div className={styles.beside}>
      {admin ? (
        <button type="button" className={styles.star} aria-pressed={marks.starred} disabled={annotate.isPending} onClick={() => void star()}>
          <Icon name="star" size={13} /> {marks.starred ? t.starred : t.star}
        </button>
      ) : (
        marks.starred && <Badge tone="waiting">★ {t.starred}</Badge>
      )}
      {marks.labels.map((name) => (
        <span key={name} className={styles.chip}>
          <Text>{name}</Text>
          {admin && <IconButton icon="close" label={t.removeLabel(name)} disabled={annotate.isPending} onClick={() => remove(label(name))} />}
        </span>
      ))}
      {admin && <AddLabel onAdd={(name) => annotate.mutate({ kind: "label", name })} />}
      {Object.entries(marks.scores).map(([name, value]) => (
        <Badge key={name} tone="accent">
          <Text>{t.score(name, String(value))}</Text>
        </Badge>
      ))}
      <Button small tone="quiet" title={t.hint} onClick={() => setOpen(true)}>
        {t.notes(marks.notes)}
      </Button>
      <Drawer open={open} onClose={() => setOpen(false)} title={t.name}>
        <Notes items={items} annotate={admin ? annotate : null} />
      </Drawer>
    </div>
  );
}

function AddLabel({ onAdd }: { onAdd: (name: string) => void }) {
  const t = useText(text);
  return (
    <Popup
      quiet
      button={
        <>
          <Icon name="plus" size={12} /> {t.addLabel}
        </>
      }
    >
      {(close) => (
        <form
          className={styles.labelForm}
          onSubmit={(event) => {
            event.preventDefault();
            const name = String(new FormData(event.currentTarget).get("name") ?? "").trim();
            if (name !== "") onAdd(name);
            close();
          }}
        >
          {/* The popup was opened to type into it. */}
          {/* oxlint-disable-next-line jsx-a11y/no-autofocus */}
          <input name="name" autoFocus maxLength={64} required aria-label={t.labelName} placeholder={t.labelName} />
          <Button type="submit" small tone="main">
            {t.add}
          </Button>
        </form>
      )}
    </Popup>
  );
}
