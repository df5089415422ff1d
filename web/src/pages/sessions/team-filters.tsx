/** Filters by person and machine, where the store has any. */
import type { SessionFacets } from "../../api/shapes";
import { MultiSelect } from "../../parts";
import { useText } from "../../text";
import { text } from "./text";

interface Chosen {
  machines: string[];
  persons: string[];
}

interface TeamFiltersProps {
  facets: SessionFacets | undefined;
  chosen: Chosen;
  onChange: (changes: Partial<Chosen>) => void;
}

export function TeamFilters({ facets, chosen, onChange }: TeamFiltersProps) {
  const t = useText(text);
  const [persons, machines] = [facets?.persons ?? [], facets?.machines ?? []];
  return (
    <>
      {(persons.length > 0 || chosen.persons.length > 0) && (
        <MultiSelect label={t.person} chosen={chosen.persons} options={persons} onChange={(next) => onChange({ persons: next })} />
      )}
      {(machines.length > 0 || chosen.machines.length > 0) && (
        <MultiSelect label={t.machine} chosen={chosen.machines} options={machines} onChange={(next) => onChange({ machines: next })} />
      )}
    </>
  );
}

/** Whether anything in the store has a person or a machine. */
export function hasTeam(facets: SessionFacets | undefined): boolean {
  return facets !== undefined && facets.persons.length + facets.machines.length > 0;
}
