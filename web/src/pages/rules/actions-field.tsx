/** The actions of a rule in the form: chosen ones in order, and a new one. */
import type { ReactNode } from "react";
import { useState } from "react";

import { post } from "../../api/client";
import type { RuleList } from "../../api/shapes";
import { Badge, Button, Failed, IconButton, Segmented, Text } from "../../parts";
import { useLanguage, useText, useTitle } from "../../text";
import type { ActionDraft, ActionType } from "./draft";
import { actionTable, newAction } from "./draft";
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
  const [adding, setAdding] = useState(false);
  const others = list.actions.filter((action) => !chosen.includes(action.name));
  const typeOf = (name: string) => list.actions.find((action) => action.name === name)?.type;
  return (
    <fieldset className={styles.group}>
      <legend>{w.actionsGroup}</legend>
      <InOrder
        chosen={chosen}
        onChange={onChange}
        about={(name) => {
          const type = typeOf(name);
          return type && <Badge>{t.types[type]}</Badge>;
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
        <Button aria-expanded={adding} onClick={() => setAdding(!adding)}>
          {w.newAction}
        </Button>
      </div>
      {adding && (
        <NewAction
          list={list}
          onSaved={(name) => {
            setAdding(false);
            onChange([...chosen, name]);
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
  onChange: (changes: Partial<ActionDraft>) => void;
}

function NewAction({ list, onSaved }: { list: RuleList; onSaved: (name: string) => void }) {
  const language = useLanguage();
  const t = useText(text);
  const w = useText(formText);
  const [draft, setDraft] = useState(() => newAction(language));
  const onChange = (changes: Partial<ActionDraft>) => setDraft((before) => ({ ...before, ...changes }));
  const name = draft.name.trim();
  const saving = useChange<void>(
    () => post("/rules/actions", { name, action: actionTable(draft) }),
    () => w.saved(name),
    true,
  );
  return (
    <div className={styles.newAction}>
      <Segmented<ActionType>
        label={w.actionType}
        value={draft.type}
        onChange={(type) => onChange({ type })}
        choices={TYPES.map((type) => ({ value: type, label: t.types[type] }))}
      />
      <div className={styles.fields}>
        <Field label={w.actionName} hint={w.nameHint} value={draft.name} onChange={(value) => onChange({ name: value })} />
        {draft.type === "webhook" && <Webhook draft={draft} onChange={onChange} />}
        {draft.type === "chain" && <Chain list={list} draft={draft} onChange={onChange} />}
        <ChoiceField
          label={w.language}
          value={draft.language}
          options={LANGUAGES}
          onChange={(chosen) => onChange({ language: chosen as ActionDraft["language"] })}
        />
      </div>
      <p className="faint">{w.commandNote}</p>
      {saving.error && <Failed error={saving.error} title={w.saveAction} />}
      <div>
        <Button disabled={!name || (draft.type === "chain" && draft.apps.length === 0)} busy={saving.isPending} onClick={() => saving.mutate(undefined, { onSuccess: () => onSaved(name) })}>
          {w.saveAction}
        </Button>
      </div>
    </div>
  );
}

function Webhook({ draft, onChange }: DraftProps) {
  const t = useText(formText);
  return (
    <>
      <Field label={t.url} hint={t.urlHint} value={draft.url} onChange={(url) => onChange({ url })} />
      <ChoiceField
        label={t.format}
        value={draft.format}
        options={FORMATS.map((format) => ({ value: format, label: format }))}
        onChange={(format) => onChange({ format: format as ActionDraft["format"] })}
      />
      <Field label={t.secret} secret value={draft.secret} onChange={(secret) => onChange({ secret })} />
      <label className={styles.tick}>
        <input type="checkbox" checked={draft.allow_private} onChange={(event) => onChange({ allow_private: event.target.checked })} />
        {t.allowPrivate}
      </label>
    </>
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
      <fieldset className={styles.keeps}>
        <legend>{t.keep}</legend>
        {KEEPS.map((each) => (
          <label key={each} className={styles.tick}>
            <input type="checkbox" checked={draft.keep.includes(each)} onChange={() => toggle(each)} />
            {t.keeps[each]}
          </label>
        ))}
      </fieldset>
    </>
  );
}
