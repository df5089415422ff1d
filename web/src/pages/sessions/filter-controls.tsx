/** The filters of the list, side by side in a bar or below each other in a drawer. */
import { useId, useState } from "react";

import { useGet } from "../../api/queries";
import type { Facet, SessionFacets } from "../../api/shapes";
import { Button, Icon, MultiSelect, Popup } from "../../parts";
import { useText } from "../../text";
import type { Filters, Outcome, State } from "./filters";
import { OUTCOMES, STATES } from "./filters";
import styles from "./filter-controls.module.css";
import { PeriodFilter } from "./period-filter";
import { ScoreFilter } from "./score-filter";
import { TeamFilters } from "./team-filters";
import { text } from "./text";

interface FilterControlsProps {
  filters: Filters;
  onChange: (changes: Partial<Filters>) => void;
  /** In a drawer: nothing has to be opened that can be open. */
  open?: boolean;
}

/** What can be filtered by; counts are of all sessions. */
function useFacets(): SessionFacets {
  const none: SessionFacets = { agents: [], projects: [], models: [], states: [], labels: [], scores: [], machines: [], persons: [] };
  return useGet<SessionFacets>("/sessions/facets", {}, { every: 15_000 }).data ?? none;
}

/** An empty name cannot be in an address, so "no project" is not a choice. */
function named(facets: readonly Facet[]): readonly Facet[] {
  return facets.filter((facet) => facet.value !== "");
}

export function FilterControls({ filters, onChange, open }: FilterControlsProps) {
  const t = useText(text);
  const facets = useFacets();
  const counts = new Map(facets.states.map((facet) => [facet.value, facet.count]));
  const states = STATES.map((state) => ({ value: state, label: t.states[state], count: counts.get(state) ?? 0 }));
  return (
    <>
      <MultiSelect
        label={t.state}
        chosen={filters.states}
        options={states}
        onChange={(chosen) => onChange({ states: chosen as State[] })}
      />
      <MultiSelect
        label={t.agent}
        chosen={filters.agents}
        options={named(facets.agents)}
        onChange={(agents) => onChange({ agents })}
      />
      <TeamFilters facets={facets} chosen={filters} onChange={onChange} />
      <MultiSelect
        label={t.project}
        chosen={filters.projects}
        options={named(facets.projects)}
        onChange={(projects) => onChange({ projects })}
      />
      <MultiSelect
        label={t.model}
        chosen={filters.models}
        options={named(facets.models)}
        onChange={(models) => onChange({ models })}
      />
      <MultiSelect
        label={t.outcome}
        chosen={filters.outcomes}
        options={OUTCOMES.map((outcome) => ({ value: outcome, label: t.outcomes[outcome] }))}
        onChange={(chosen) => onChange({ outcomes: chosen as Outcome[] })}
      />
      {(facets.labels.length > 0 || filters.labels.length > 0) && (
        <MultiSelect label={t.label} chosen={filters.labels} options={facets.labels} onChange={(labels) => onChange({ labels })} />
      )}
      {(facets.scores.length > 0 || filters.scores.length > 0) && (
        <ScoreFilter names={facets.scores} tests={filters.scores} onChange={(scores) => onChange({ scores })} open={open} />
      )}
      <PeriodFilter period={filters} onChange={onChange} open={open} />
      <CostFilter least={filters.minCost} onChange={(minCost) => onChange({ minCost })} open={open} />
      <button
        type="button"
        className={styles.toggle}
        aria-pressed={filters.errors}
        onClick={() => onChange({ errors: !filters.errors })}
      >
        {filters.errors && <Icon name="check" size={12} />}
        {t.errorsOnly}
      </button>
      <button
        type="button"
        className={styles.toggle}
        aria-pressed={filters.commits}
        onClick={() => onChange({ commits: !filters.commits })}
      >
        {filters.commits && <Icon name="check" size={12} />}
        {t.commitsOnly}
      </button>
      <button
        type="button"
        className={styles.toggle}
        aria-pressed={filters.starred}
        onClick={() => onChange({ starred: !filters.starred })}
      >
        {filters.starred && <Icon name="check" size={12} />}
        {t.starredOnly}
      </button>
    </>
  );
}

interface CostFilterProps {
  least: number | null;
  onChange: (least: number | null) => void;
  open?: boolean;
}

function CostFilter({ least, onChange, open }: CostFilterProps) {
  const t = useText(text);
  if (open) return <CostField least={least} onChange={onChange} />;
  return (
    <Popup
      set={least !== null}
      button={
        <>
          <span>{t.cost}</span>
          {least !== null && <strong>{t.costAtLeast(String(least))}</strong>}
          <Icon name="down" size={12} />
        </>
      }
    >
      {() => <CostField least={least} onChange={onChange} />}
    </Popup>
  );
}

function CostField({ least, onChange }: CostFilterProps) {
  const t = useText(text);
  const note = useId();
  const [typed, setTyped] = useState(least === null ? "" : String(least));
  const change = (next: string) => {
    setTyped(next);
    const amount = Number(next);
    onChange(next !== "" && Number.isFinite(amount) && amount > 0 ? amount : null);
  };
  return (
    <div className={styles.cost}>
      <label>
        {t.leastCost}
        <input
          type="number"
          min="0"
          step="any"
          inputMode="decimal"
          value={typed}
          aria-describedby={note}
          onChange={(event) => change(event.target.value)}
        />
      </label>
      <div className={styles.amounts}>
        {["0.1", "1", "10"].map((amount) => (
          <Button key={amount} small onClick={() => change(amount)}>
            {t.costAtLeast(amount)}
          </Button>
        ))}
      </div>
      <p id={note} className="faint">
        {t.leastCostNote}
      </p>
    </div>
  );
}
