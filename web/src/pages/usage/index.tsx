/** Tokens and cost: by time, model, agent, project or session. */
import { useMemo } from "react";
import { useLocation, useSearch } from "wouter";

import { API } from "../../api/client";
import { useGet } from "../../api/queries";
import type { SessionFacets, UsageAnswer } from "../../api/shapes";
import { useFormat } from "../../format";
import { modelName } from "../../models";
import { Bar, Button, Cost, Empty, LinkButton, Loaded, MultiSelect, Page, Section, Segmented, Select, Stat, Stats, Tokens } from "../../parts";
import { SavedViews } from "../../saved-views/saved-views";
import { useText } from "../../text";
import { address, useFlagParam, useParams } from "../../url";
import { PeriodFilter } from "../sessions/period-filter";
import { TeamFilters, hasTeam } from "../sessions/team-filters";
import { LimitsCard } from "./limits-card";
import { useMeasure } from "./measure-switch";
import type { Question } from "./question";
import { ALWAYS, BYS, OF_TEAMS, SPLITS, apiParams, questionOf, questionParams, regrouped, usualSince } from "./question";
import { RemarksStrip } from "./remarks-strip";
import { text } from "./text";
import { useRefetchOnLive } from "./throttle";
import { UsageChart } from "./usage-chart";
import { UsageTable } from "./usage-table";
import styles from "./usage.module.css";

export default function Usage() {
  const t = useText(text);
  const search = useSearch();
  const [, navigate] = useLocation();
  const params = useParams();
  const question = useMemo(() => questionOf(search), [search]);
  const asked = useMemo(() => apiParams(question), [question]);
  const query = useGet<UsageAnswer>("/usage", asked, { keep: true });
  useRefetchOnLive(query.refetch, 5000);
  const ask = (next: Question) => params.change({ ...questionParams(next), sort: null, order: null });
  const clear = () => ask({ ...question, agents: [], projects: [], models: [], machines: [], persons: [], since: ALWAYS, until: "" });
  return (
    <Page
      title={t.title}
      note={query.data ? t.note(query.data.timezone) : <>&nbsp;</>}
      actions={
        <LinkButton href={address(`${API}/usage.csv`, asked)} download icon="download">
          {t.csv}
        </LinkButton>
      }
    >
      <Controls question={question} onAsk={ask} />
      <SavedViews page="usage" search={search} onApply={(saved) => navigate(saved ? `/usage?${saved}` : "/usage")} />
      <Loaded query={query} lines={12}>
        {(answer) =>
          answer.rows.length > 0 ? (
            // The previous answer, shown while the next one loads, has the previous grouping.
            <Answer answer={answer} question={answer.by === question.by ? question : { ...question, by: byOf(answer) }} />
          ) : (
            <Empty icon="usage" title={t.empty}>
              <p>{t.emptyNote}</p>
              <Button onClick={clear}>{t.clearFilters}</Button>
            </Empty>
          )
        }
      </Loaded>
      <LimitsCard />
    </Page>
  );
}

/** The sums of the whole period, above everything that is drawn. */
function Totals({ answer: { total, rows, by } }: { answer: UsageAnswer }) {
  const t = useText(text);
  const f = useFormat();
  const read = total.input_tokens + total.cache_read_tokens + total.cache_write_tokens;
  return (
    <Section>
      <Stats>
        <Stat label={t.cost} value={<Cost bill={total} />} />
        <Stat label={t.tokens} value={<Tokens bill={total} />} />
        <Stat label={t.input} value={f.tokens(total.input_tokens)} title={f.count(total.input_tokens)} />
        <Stat
          label={t.cacheRead}
          value={f.tokens(total.cache_read_tokens)}
          note={read > 0 ? t.ofInput(f.percent(total.cache_read_tokens, read)) : undefined}
          title={f.count(total.cache_read_tokens)}
        />
        <Stat label={t.output} value={f.tokens(total.output_tokens)} title={f.count(total.output_tokens)} />
        <Stat label={t.requests} value={f.count(total.requests)} />
        <Stat label={t.groups[by as keyof typeof t.groups]} value={f.count(rows.length)} />
      </Stats>
    </Section>
  );
}

function byOf(answer: UsageAnswer): Question["by"] {
  return BYS.find((by) => by === answer.by) ?? "day";
}

function Controls({ question, onAsk }: { question: Question; onAsk: (question: Question) => void }) {
  const t = useText(text);
  const facets = useGet<SessionFacets>("/sessions/facets").data;
  const values = (of: keyof SessionFacets) => (facets?.[of] ?? []).map(({ value }) => ({ value })).filter(({ value }) => value !== "");
  const offered = (name: string) => hasTeam(facets) || !OF_TEAMS.has(name) || name === question.by;
  const splits = SPLITS.filter((split) => split !== question.by && (offered(split) || split === question.split));
  return (
    <Bar label={t.filters}>
      <Segmented
        label={t.by}
        value={question.by}
        choices={BYS.filter(offered).map((by) => ({ value: by, label: t.bys[by] }))}
        onChange={(by) => onAsk(regrouped(question, by))}
      />
      <Select
        label={t.split}
        value={question.split ?? "none"}
        options={[{ value: "none", label: t.splits.none }, ...splits.map((split) => ({ value: split, label: t.splits[split] }))]}
        onChange={(chosen) => onAsk({ ...question, split: SPLITS.find((split) => split === chosen) ?? null })}
      />
      <PeriodFilter
        period={question}
        always={ALWAYS}
        usual={usualSince(question.by)}
        onChange={(period) => onAsk({ ...question, ...period })}
      />
      <MultiSelect
        label={t.model}
        chosen={question.models}
        options={values("models").map(({ value }) => ({ value, label: modelLabel(value) }))}
        onChange={(models) => onAsk({ ...question, models })}
      />
      <MultiSelect
        label={t.agent}
        chosen={question.agents}
        options={values("agents")}
        onChange={(agents) => onAsk({ ...question, agents })}
      />
      <MultiSelect
        label={t.project}
        chosen={question.projects}
        options={values("projects")}
        onChange={(projects) => onAsk({ ...question, projects })}
      />
      <TeamFilters facets={facets} chosen={question} onChange={(chosen) => onAsk({ ...question, ...chosen })} />
    </Bar>
  );
}

/** A model in a list to choose from: by its name, and its id where that says more. */
function modelLabel(id: string): string {
  const name = modelName(id);
  return name === id ? id : `${name} (${id})`;
}

function Answer({ answer, question }: { answer: UsageAnswer; question: Question }) {
  const t = useText(text);
  const measure = useMeasure(answer.total);
  const [parts, setParts] = useFlagParam("parts");
  return (
    <>
      <Totals answer={answer} />
      <Section>
        <UsageChart answer={answer} question={question} measure={measure} />
      </Section>
      <div className={styles.above}>
        <RemarksStrip bill={answer.total} notExamined={answer.not_examined} />
        {question.split !== null && (
          <label className={styles.parts}>
            <input type="checkbox" checked={parts} onChange={(event) => setParts(event.target.checked)} /> {t.parts}
          </label>
        )}
      </div>
      <UsageTable answer={answer} question={question} measure={measure} parts={parts && question.split !== null} />
    </>
  );
}
