/** Filters by scores: a name, a comparison and a number; several conditions must all be met. */
import type { FormEvent } from "react";
import { useState } from "react";

import type { Facet } from "../../api/shapes";
import { Button, Icon, IconButton, Popup, Select, Text } from "../../parts";
import { useText } from "../../text";
import { numberOf } from "../../url";
import styles from "./filter-controls.module.css";
import type { ScoreTest } from "./filters";
import { COMPARISONS, scoreTestOf, scoreTestText } from "./filters";
import { text } from "./text";

interface ScoreFilterProps {
  /** The names of scores that sessions have. */
  names: readonly Facet[];
  tests: readonly string[];
  onChange: (tests: string[]) => void;
  open?: boolean;
}

const SIGNS: Record<ScoreTest["comparison"], string> = { "<": "<", "<=": "≤", "=": "=", ">=": "≥", ">": ">" };

function shown(test: string): string {
  const parts = scoreTestOf(test);
  return parts ? `${parts.name} ${SIGNS[parts.comparison]} ${parts.value}` : test;
}

export function ScoreFilter(props: ScoreFilterProps) {
  const t = useText(text);
  const { tests, open } = props;
  if (open) return <ScoreFields {...props} />;
  return (
    <Popup
      set={tests.length > 0}
      button={
        <>
          <span>{t.score}</span>
          {tests.length > 0 && (
            <strong>
              <Text>{tests.map(shown).join(", ")}</Text>
            </strong>
          )}
          <Icon name="down" size={12} />
        </>
      }
    >
      {() => <ScoreFields {...props} />}
    </Popup>
  );
}

function ScoreFields({ names, tests, onChange }: ScoreFilterProps) {
  const t = useText(text);
  return (
    <div className={styles.cost}>
      {tests.length > 0 && (
        <ul role="list" className={styles.tests}>
          {tests.map((test) => (
            <li key={test}>
              <Text>{shown(test)}</Text>
              <IconButton icon="close" label={t.removeScore(shown(test))} onClick={() => onChange(tests.filter((other) => other !== test))} />
            </li>
          ))}
        </ul>
      )}
      <NewTest names={names} add={(test) => onChange([...tests.filter((other) => other !== test), test])} />
      <p className="faint">{t.scoreNote}</p>
    </div>
  );
}

function NewTest({ names, add }: { names: readonly Facet[]; add: (test: string) => void }) {
  const t = useText(text);
  const [chosen, setName] = useState("");
  const name = chosen || names[0]?.value || "";
  const [comparison, setComparison] = useState<ScoreTest["comparison"]>("<");
  const [typed, setTyped] = useState("");
  const value = numberOf(typed);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name && value !== null) add(scoreTestText({ name, comparison, value }));
    setTyped("");
  };
  return (
    <form className={styles.test} onSubmit={submit}>
      <Select bare label={t.scoreName} value={name} options={names.map((facet) => ({ value: facet.value, label: facet.value }))} onChange={setName} />
      <Select
        bare
        label={t.scoreComparison}
        value={comparison}
        options={COMPARISONS.map((each) => ({ value: each, label: `${SIGNS[each]} ${t.comparisons[each]}` }))}
        onChange={(next) => setComparison(COMPARISONS.find((each) => each === next) ?? "<")}
      />
      <input type="number" step="any" inputMode="decimal" aria-label={t.scoreValue} value={typed} onChange={(event) => setTyped(event.target.value)} />
      <Button small type="submit" disabled={value === null || name === ""}>
        {t.addScore}
      </Button>
    </form>
  );
}
