/** The form that writes a rule, and tries it before it is switched on. */
import { useId, useState } from "react";

import { change, post } from "../../api/client";
import { useTeam } from "../../api/queries";
import type { Rule, RuleList, RuleTrial } from "../../api/shapes";
import { Button, Drawer, Failed, Text } from "../../parts";
import { useText } from "../../text";
import { ActionsField } from "./actions-field";
import type { Draft } from "./draft";
import { draftOf, durationText, filtersOf, hasErrors, keptFilters, newDraft, tableOf } from "./draft";
import { ChoiceField, Field } from "./field";
import { formText } from "./form-text";
import styles from "./rules.module.css";
import { text } from "./text";
import { PERIOD, TrialReport } from "./trial";
import { useChange } from "./use-change";

interface FormProps {
  /** Null: a new one. */
  rule: Rule | null;
  list: RuleList;
  onClose: () => void;
}

type Mode = Rule["mode"];

export function Form({ rule, list, onClose }: FormProps) {
  const w = useText(formText);
  const form = useId();
  const [draft, setDraft] = useState<Draft>(() => (rule ? draftOf(rule) : newDraft()));
  const [tried, setTried] = useState<{ of: string; trial: RuleTrial } | null>(null);
  const update = (changes: Partial<Draft>) => setDraft((before) => ({ ...before, ...changes }));
  const table = JSON.stringify(tableOf(draft));
  const kind = list.events.find((each) => each.kind === draft.on);
  const current = tried?.of === table ? tried.trial : null;
  const trying = useChange<void, RuleTrial>(
    () => post<RuleTrial>("/rules/trial", { rule: tableOf(draft), since: PERIOD }),
    undefined,
    true,
  );
  const saving = useChange<Mode>((mode) => save(rule, draft, mode), () => w.saved(draft.name), true);
  const store = (mode: Mode) => saving.mutate(mode, { onSuccess: onClose });
  const complete = draft.name.trim() !== "" && draft.do.length > 0;
  return (
    <Drawer
      open
      onClose={onClose}
      title={rule ? w.formEdit(rule.name) : w.formNew}
      actions={
        <div className={styles.save}>
          {!current && <span className="faint">{w.firstTry}</span>}
          <Button disabled={!complete} busy={saving.isPending} onClick={() => store("off")}>
            {w.saveOff}
          </Button>
          <Button disabled={!complete} busy={saving.isPending} onClick={() => store("dry")}>
            {w.saveDry}
          </Button>
          <Button tone="main" disabled={!complete || !current} busy={saving.isPending} onClick={() => store("on")}>
            {w.saveOn}
          </Button>
        </div>
      }
    >
      <form
        id={form}
        className={styles.form}
        onSubmit={(event) => {
          event.preventDefault();
          trying.mutate(undefined, { onSuccess: (trial) => setTried({ of: table, trial }) });
        }}
      >
        <Names draft={draft} isNew={rule === null} list={list} onChange={update} />
        <Filters draft={draft} onChange={update} />
        <Timing draft={draft} settle={kind?.settle_seconds ?? 0} once={kind?.once ?? "session"} onChange={update} />
        <ActionsField list={list} chosen={draft.do} onChange={(chosen) => update({ do: chosen })} />
        <div>
          <Button type="submit" busy={trying.isPending}>
            {w.tryDraft}
          </Button>
        </div>
        {trying.error && <Failed error={trying.error} title={w.tryDraft} />}
        {current && <TrialReport trial={current} />}
        {saving.error && <Failed error={saving.error} />}
      </form>
    </Drawer>
  );
}

function save(rule: Rule | null, draft: Draft, mode: Mode): Promise<unknown> {
  const table = tableOf(draft, mode);
  return rule === null
    ? post("/rules", { name: draft.name.trim(), rule: table })
    : change("PUT", `/rules/${encodeURIComponent(rule.name)}`, { rule: table });
}

interface PartProps {
  draft: Draft;
  onChange: (changes: Partial<Draft>) => void;
}

function Names({ draft, isNew, list, onChange }: PartProps & { isNew: boolean; list: RuleList }) {
  const t = useText(text);
  const w = useText(formText);
  return (
    <div className={styles.fields}>
      {isNew && <Field label={w.name} hint={w.nameHint} value={draft.name} onChange={(name) => onChange({ name })} />}
      <Field label={w.titleField} value={draft.title} onChange={(title) => onChange({ title })} />
      <ChoiceField
        label={w.onField}
        value={draft.on}
        options={list.events.map(({ kind }) => ({ value: kind, label: t.events[kind] }))}
        onChange={(on) => onChange({ on: on as Draft["on"] })}
      />
    </div>
  );
}

function Filters({ draft, onChange }: PartProps) {
  const t = useText(text);
  const w = useText(formText);
  const team = useTeam() !== undefined;
  const kept = Object.entries(keptFilters(draft)).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  const offered = (name: keyof Draft["where"]) => team || (name !== "machine" && name !== "person") || draft.where[name] !== "";
  return (
    <fieldset className={styles.group}>
      <legend>{w.filterGroup}</legend>
      <p className="faint">{w.filterHint}</p>
      <div className={styles.fields}>
        {filtersOf(draft.on).filter(offered).map((name) => (
          <Field
            key={name}
            label={t.filters[name]}
            value={draft.where[name]}
            onChange={(value) => onChange({ where: { ...draft.where, [name]: value } })}
          />
        ))}
        {hasErrors(draft.on) && (
          <ChoiceField
            label={w.errorsField}
            value={draft.errors}
            none={w.anyErrors}
            options={[
              { value: "true", label: t.withErrors },
              { value: "false", label: t.withoutErrors },
            ]}
            onChange={(errors) => onChange({ errors: errors as Draft["errors"] })}
          />
        )}
      </div>
      {kept.length > 0 && (
        <p className="faint">
          <Text>{w.keptFilters(kept.join(", "))}</Text>
        </p>
      )}
    </fieldset>
  );
}

const ONCES = ["session", "turn", "span", "crossing"] as const;

function Timing({ draft, settle, once, onChange }: PartProps & { settle: number; once: (typeof ONCES)[number] }) {
  const t = useText(formText);
  return (
    <fieldset className={styles.group}>
      <legend>{t.timing}</legend>
      <div className={styles.fields}>
        <Field
          label={t.settleField}
          hint={t.settleHint(durationText(settle))}
          value={draft.settle}
          onChange={(value) => onChange({ settle: value })}
        />
        <Field
          label={t.cooldownField}
          hint={t.cooldownHint}
          value={draft.cooldown}
          onChange={(cooldown) => onChange({ cooldown })}
        />
        <Field label={t.maxField} hint="200" value={draft.max_per_day} onChange={(value) => onChange({ max_per_day: value })} />
        <Field label={t.tokensField} value={draft.tokens_per_day} onChange={(value) => onChange({ tokens_per_day: value })} />
        <Field label={t.sampleField} hint={t.sampleHint} value={draft.sample} onChange={(sample) => onChange({ sample })} />
        <Field label={t.startField} hint={t.startHint} value={draft.start} onChange={(start) => onChange({ start })} />
        <ChoiceField
          label={t.onceField}
          value={draft.once}
          none={t.onceDefault(t.onces[once])}
          options={ONCES.map((each) => ({ value: each, label: t.onces[each] }))}
          onChange={(value) => onChange({ once: value as Draft["once"] })}
        />
      </div>
    </fieldset>
  );
}
