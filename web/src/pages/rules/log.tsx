/** What rules decided: fired, did not and why, failed with attempts. */
import { usePages } from "../../api/queries";
import type { Rule, RuleFiring, RuleFiringList } from "../../api/shapes";
import { Bar, Button, Loaded, Section, Select } from "../../parts";
import { useText } from "../../text";
import { useFlagParam, useParams } from "../../url";
import { FiringDrawer } from "./firing";
import { Firings } from "./firings";
import styles from "./rules.module.css";
import { text } from "./text";

type State = RuleFiring["state"];
/** Most events do not fire a rule: they are asked for. */
const QUIET = "skipped";
const STATES: State[] = ["done", "failed", "skipped", "dry", "settling", "held", "queued", "running", "collected"];

export function Log({ rules }: { rules: Rule[] }) {
  const t = useText(text);
  const params = useParams();
  const rule = params.text("rule");
  const state = STATES.find((each) => each === params.text("state")) ?? "";
  const [quiet, setQuiet] = useFlagParam("skipped");
  const states = state ? [state] : quiet ? [] : STATES.filter((each) => each !== QUIET);
  const pages = usePages<RuleFiring, RuleFiringList>("/rules/firings", { rule, state: states, limit: 50 }, { keep: true, every: 2000 });
  const firing = params.number("firing");
  return (
    <Section title={t.log} note={t.logNote}>
      <Bar label={t.log}>
        <Select
          label={t.rule}
          value={rule}
          none={t.allRules}
          options={rules.map(({ name }) => ({ value: name, label: name }))}
          onChange={(next) => params.change({ rule: next })}
        />
        <Select
          label={t.state}
          value={state}
          none={t.allStates}
          options={STATES.map((each) => ({ value: each, label: t.states[each] }))}
          onChange={(next) => params.change({ state: next })}
        />
        {!state && (
          <label className={styles.check}>
            <input type="checkbox" checked={quiet} onChange={(event) => setQuiet(event.target.checked)} /> {t.withSkipped}
          </label>
        )}
      </Bar>
      <Loaded query={pages}>
        {() => (
          <div className={styles.log}>
            {pages.items.length > 0 ? (
              <Firings rows={pages.items} onOpen={(row) => params.change({ firing: row.id }, { push: true })} />
            ) : (
              <p className="soft">{rule || state ? t.nothingFound : quiet ? t.nothing : t.nothingFired}</p>
            )}
            {pages.hasNextPage && (
              <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
                {t.more}
              </Button>
            )}
          </div>
        )}
      </Loaded>
      {firing !== null && <FiringDrawer id={firing} onClose={() => params.change({ firing: null })} />}
    </Section>
  );
}
