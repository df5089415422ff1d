/** Insights: how tools and models do over many sessions, and what stands out. */
import { useMemo } from "react";
import { useLocation, useSearch } from "wouter";

import { useGet } from "../../api/queries";
import type { SessionFacets } from "../../api/shapes";
import { Bar, MultiSelect, Page, Select, Tabs, panelProps } from "../../parts";
import { SavedViews } from "../../saved-views/saved-views";
import { useText } from "../../text";
import { useChoice, useParams } from "../../url";
import { PeriodFilter } from "../sessions/period-filter";
import { TeamFilters, hasTeam } from "../sessions/team-filters";
import { FindingList } from "./findings";
import { ModelTable } from "./models";
import type { Question, Split } from "./question";
import { ALWAYS, MODEL_SPLITS, TABS, TOOL_SPLITS, USUAL, questionOf, questionParams } from "./question";
import { text } from "./text";
import { ToolTable } from "./tools";

export default function Insights() {
  const t = useText(text);
  const search = useSearch();
  const [, navigate] = useLocation();
  const params = useParams();
  const question = useMemo(() => questionOf(search), [search]);
  const [tab, setTab] = useChoice("tab", TABS);
  const splits: readonly Split[] = tab === "tools" ? TOOL_SPLITS : tab === "models" ? MODEL_SPLITS : [];
  const by = splits.find((split) => split === params.text("by")) ?? null;
  const ask = (next: Question) => params.change({ ...questionParams(next), tool: null, part: null });
  const clear = () => ask({ since: ALWAYS, until: "", agents: [], projects: [], models: [], machines: [], persons: [] });
  const open = (value: (typeof TABS)[number]) => {
    params.change({ by: null, sort: null, order: null, tool: null, part: null }, { push: true });
    setTab(value);
  };
  return (
    <Page title={t.title} note={t.note}>
      <Tabs id="insights" label={t.tabs} choices={TABS.map((value) => ({ value, label: t[value] }))} value={tab} onChange={open} />
      <Controls question={question} onAsk={ask} by={by} splits={splits} />
      <SavedViews page="insights" search={search} onApply={(saved) => navigate(saved ? `/insights?${saved}` : "/insights")} />
      <div {...panelProps("insights", tab)}>
        {tab === "findings" && <FindingList question={question} onClear={clear} />}
        {tab === "tools" && <ToolTable question={question} by={by} onClear={clear} />}
        {tab === "models" && <ModelTable question={question} by={by === "model" ? null : by} onClear={clear} />}
      </div>
    </Page>
  );
}

interface ControlsProps {
  question: Question;
  onAsk: (question: Question) => void;
  by: Split | null;
  splits: readonly Split[];
}

function Controls({ question, onAsk, by, splits }: ControlsProps) {
  const t = useText(text);
  const params = useParams();
  const facets = useGet<SessionFacets>("/sessions/facets").data;
  const values = (of: keyof SessionFacets) => (facets?.[of] ?? []).map(({ value }) => ({ value })).filter(({ value }) => value !== "");
  const offered = splits.filter((split) => hasTeam(facets) || (split !== "person" && split !== "machine") || split === by);
  return (
    <Bar label={t.filters}>
      <PeriodFilter period={question} always={ALWAYS} usual={USUAL} onChange={(period) => onAsk({ ...question, ...period })} />
      <MultiSelect label={t.model} chosen={question.models} options={values("models")} onChange={(models) => onAsk({ ...question, models })} />
      <MultiSelect label={t.agent} chosen={question.agents} options={values("agents")} onChange={(agents) => onAsk({ ...question, agents })} />
      <MultiSelect
        label={t.project}
        chosen={question.projects}
        options={values("projects")}
        onChange={(projects) => onAsk({ ...question, projects })}
      />
      <TeamFilters facets={facets} chosen={question} onChange={(chosen) => onAsk({ ...question, ...chosen })} />
      {splits.length > 0 && (
        <Select
          label={t.by}
          value={by ?? "none"}
          options={[{ value: "none", label: t.bys.none }, ...offered.map((split) => ({ value: split, label: t.bys[split] }))]}
          onChange={(chosen) => params.change({ by: chosen === "none" ? null : chosen, tool: null, part: null })}
        />
      )}
    </Bar>
  );
}
