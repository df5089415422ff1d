/** The actions of a rule in the form: chosen ones in order, and a new one. */
import type { ReactNode } from "react";
import { useState } from "react";

import { change, post } from "../../api/client";
import type { RuleAction, RuleList } from "../../api/shapes";
import { Badge, Button, Failed, IconButton, Segmented, Text } from "../../parts";
import { useLanguage, useText, useTitle } from "../../text";
import type { ActionDraft, ActionType } from "./draft";
import { actionDraftOf, actionTable, isEditable, newAction } from "./draft";
import { ChoiceField, Field } from "./field";
import { formText } from "./form-text";
import styles from "./rules.module.css";
import { text } from "./text";
import { useChange } from "./use-change";

interface ActionsFieldProps {
  list: RuleList;
  chosen: string[];
  onChange: (chosen: string[]) => void;
}

export function ActionsField({ list, chosen, onChange }: ActionsFieldProps) {
  const t = useText(text);
  const w = useText(formText);
  /** The action that is written: null is a new one. */
  const [written, setWritten] = useState<RuleAction | null | undefined>(undefined);
  const others = list.actions.filter((action) => !chosen.includes(action.name));
  const known = (name: string) => list.actions.find((action) => action.name === name);
  return (
    <fieldset className={styles.group}>
      <legend>{w.actionsGroup}</legend>
      <InOrder
        chosen={chosen}
        onChange={onChange}
        about={(name) => {
          const action = known(name);
          return (
            action && (
              <>
                <Badge>{t.types[action.type]}</Badge>
                {isEditable(action) && (
                  <Button small tone="quiet" aria-label={w.editAction(name)} onClick={() => setWritten(action)}>
                    {t.edit}
                  </Button>
                )}
              </>
            )
          );
        }}
      />
      <div className={styles.fields}>
        <ChoiceField
          label={w.addAction}
          value=""
          none="–"
          options={others.map((action) => ({ value: action.name, label: `${action.name} (${t.types[action.type]})` }))}
          onChange={(name) => name && onChange([...chosen, name])}
        />
        <Button aria-expanded={written === null} onClick={() => setWritten(written === null ? undefined : null)}>
          {w.newAction}
        </Button>
      </div>
      {written !== undefined && (
        <ActionForm
          key={written?.name ?? ""}
          list={list}
          action={written}
          onClose={() => setWritten(undefined)}
          onSaved={(name) => {
            setWritten(undefined);
            if (!chosen.includes(name)) onChange([...chosen, name]);
          }}
        />
      )}
    </fieldset>
  );
}

interface InOrderProps {
  chosen: string[];
  onChange: (chosen: string[]) => void;
  about: (name: string) => ReactNode;
}

/** Names in order: each can be moved up and taken out. */
function InOrder({ chosen, onChange, about }: InOrderProps) {
  const w = useText(formText);
  if (chosen.length === 0) return null;
  return (
    <ol className={styles.chosen}>
      {chosen.map((name, place) => (
        <li key={name}>
          <Text>{name}</Text> {about(name)}
          {place > 0 && <IconButton icon="up" label={w.upAction(name)} onClick={() => onChange(movedUp(chosen, place))} />}
          <IconButton icon="close" label={w.dropAction(name)} onClick={() => onChange(chosen.filter((other) => other !== name))} />
        </li>
      ))}
    </ol>
  );
}

function movedUp(chosen: string[], place: number): string[] {
  const moved = chosen.toSpliced(place, 1);
  return moved.toSpliced(place - 1, 0, chosen[place] ?? "");
}

const TYPES: ActionType[] = ["webhook", "notify", "chain"];
const FORMATS = ["slack", "teams", "dingtalk", "feishu", "json"] as const;
const INPUTS = ["outline", "conversation", "transcript", "turn", "span"] as const;
/** By their own names. */
const LANGUAGES = [
  { value: "en", label: "English" },
  { value: "zh", label: "中文" },
];
const KEEPS = ["note", "score", "label"] as const;

interface DraftProps {
  draft: ActionDraft;
  /** As it is stored; null: a new one. */
  action: RuleAction | null;
  onChange: (changes: Partial<ActionDraft>) => void;
}

interface ActionFormProps {
  list: RuleList;
  action: RuleAction | null;
  onSaved: (name: string) => void;
  onClose: () => void;
}

/** Writes a new action, or changes one. */
function ActionForm({ list, action, onSaved, onClose }: ActionFormProps) {
  const language = useLanguage();
  const t = useText(text);
  const w = useText(formText);
  const [draft, setDraft] = useState(() => (action ? actionDraftOf(action) : newAction(language)));
  const onChange = (changes: Partial<ActionDraft>) => setDraft((before) => ({ ...before, ...changes }));
  const name = draft.name.trim();
  const saving = useChange<void>(
    () =>
      action === null
        ? post("/rules/actions", { name, action: actionTable(draft) })
        : change("PUT", `/rules/actions/${encodeURIComponent(name)}`, { action: actionTable(draft) }),
    () => w.saved(name),
    true,
  );
  const parts = { draft, action, onChange };
  return (
    <div className={styles.newAction} role="group" aria-label={action ? w.editAction(action.name) : w.newAction}>
      <Segmented<ActionType>
        label={w.actionType}
        value={draft.type}
        onChange={(type) => onChange({ type })}
        choices={TYPES.map((type) => ({ value: type, label: t.types[type] }))}
      />
      <div className={styles.fields}>
        {action === null && (
          <Field label={w.actionName} hint={w.nameHint} value={draft.name} onChange={(value) => onChange({ name: value })} />
        )}
        {draft.type === "webhook" && <Webhook {...parts} />}
        {draft.type === "chain" && <Chain list={list} {...parts} />}
        <ChoiceField
          label={w.language}
          value={draft.language}
          options={LANGUAGES}
          onChange={(chosen) => onChange({ language: chosen as ActionDraft["language"] })}
        />
        <Field
          label={w.timeout}
          hint={w.timeoutHint}
          value={draft.timeout_seconds}
          onChange={(value) => onChange({ timeout_seconds: value })}
        />
      </div>
      <p className="faint">{w.commandNote}</p>
      {saving.error && <Failed error={saving.error} title={w.saveAction} />}
      <div className={styles.ways}>
        <Button disabled={!name || (draft.type === "chain" && draft.apps.length === 0)} busy={saving.isPending} onClick={() => saving.mutate(undefined, { onSuccess: () => onSaved(name) })}>
          {w.saveAction}
        </Button>
        <Button tone="quiet" onClick={onClose}>
          {w.cancelAction}
        </Button>
      </div>
    </div>
  );
}

function Webhook({ draft, action, onChange }: DraftProps) {
  const t = useText(formText);
  // Secrets of another type of action do not stay.
  const before = action?.type === "webhook" ? action : null;
  return (
    <>
      <Field label={t.url} hint={before?.address ? t.urlStays(before.address) : t.urlHint} value={draft.url} onChange={(url) => onChange({ url })} />
      <ChoiceField
        label={t.format}
        value={draft.format}
        options={FORMATS.map((format) => ({ value: format, label: format }))}
        onChange={(format) => onChange({ format: format as ActionDraft["format"] })}
      />
      <Field label={t.secret} secret hint={before?.signed ? t.secretStays : undefined} value={draft.secret} onChange={(secret) => onChange({ secret })} />
      <Field
        label={t.headers}
        lines
        hint={before && before.headers.length > 0 ? t.headersStay(before.headers.join(", ")) : t.headersHint}
        value={draft.headers}
        onChange={(headers) => onChange({ headers })}
      />
      {before?.signed && (
        <Tick label={t.dropSecret} checked={draft.drop.secret} onChange={(secret) => onChange({ drop: { ...draft.drop, secret } })} />
      )}
      {before && before.headers.length > 0 && (
        <Tick label={t.dropHeaders} checked={draft.drop.headers} onChange={(headers) => onChange({ drop: { ...draft.drop, headers } })} />
      )}
      <Tick label={t.allowPrivate} checked={draft.allow_private} onChange={(allowed) => onChange({ allow_private: allowed })} />
    </>
  );
}

function Tick({ label, checked, onChange }: { label: string; checked: boolean; onChange: (checked: boolean) => void }) {
  return (
    <label className={styles.tick}>
      <input type="checkbox" checked={checked} onChange={(event) => onChange(event.target.checked)} />
      {label}
    </label>
  );
}

/** The applications of a chain, chosen from the catalog, in the order in which they are called. */
function Apps({ list, chosen, onChange }: { list: RuleList; chosen: string[]; onChange: (chosen: string[]) => void }) {
  const t = useText(formText);
  const titleOf = useTitle();
  const missing = list.apps.filter((app) => chosen.includes(app.name)).flatMap((app) => app.missing);
  const others = list.apps.filter((app) => !chosen.includes(app.name));
  return (
    <div className={styles.apps}>
      <ChoiceField
        label={t.apps}
        value=""
        none="–"
        options={others.map((app) => ({ value: app.name, label: `${app.name} · ${titleOf(app)}` }))}
        onChange={(name) => name && onChange([...chosen, name])}
      />
      <InOrder chosen={chosen} onChange={onChange} about={() => null} />
      <p className="faint">{list.apps_problem ?? t.appsHint}</p>
      {missing.length > 0 && <p className="faint">{t.appsMissing([...new Set(missing)].join(", "))}</p>}
    </div>
  );
}

function Chain({ list, draft, onChange }: DraftProps & { list: RuleList }) {
  const t = useText(formText);
  const toggle = (each: string) =>
    onChange({ keep: draft.keep.includes(each) ? draft.keep.filter((other) => other !== each) : [...draft.keep, each] });
  return (
    <>
      <Apps list={list} chosen={draft.apps} onChange={(apps) => onChange({ apps })} />
      <ChoiceField
        label={t.input}
        value={draft.input}
        options={INPUTS.map((input) => ({ value: input, label: t.inputs[input] }))}
        onChange={(input) => onChange({ input })}
      />
      <Field label={t.maxChars} hint={t.maxCharsHint} value={draft.max_chars} onChange={(value) => onChange({ max_chars: value })} />
      <fieldset className={styles.keeps}>
        <legend>{t.keep}</legend>
        {KEEPS.map((each) => (
          <Tick key={each} label={t.keeps[each]} checked={draft.keep.includes(each)} onChange={() => toggle(each)} />
        ))}
      </fieldset>
    </>
  );
}
