/** Budgets for agents and the windows of providers' limits: how far they are used, and when they end. */
import { Link } from "wouter";

import { useGet } from "../../api/queries";
import type { AgentBudget, AgentLimits, ProviderWindow } from "../../api/shapes";
import type { Format } from "../../format";
import { useFormat } from "../../format";
import { Code, Grid, Meter, Section, Text, useNow } from "../../parts";
import { useTypeable } from "../../program";
import { useText } from "../../text";
import styles from "./limits-card.module.css";
import { text } from "./limits-text";
import { amount, openWindows, pace, tone } from "./limits";

/** The page is told of what is recorded; windows also change when time passes. */
const EVERY = 15_000;
const EXAMPLE = '[budgets.all]\nperiod = "month"\nlimit = 100';

export function useLimits(): AgentLimits | undefined {
  return useGet<AgentLimits>("/limits", {}, { every: EVERY, fresh: EVERY }).data;
}

/** `quiet`: nothing at all while there is nothing to show. */
export function LimitsCard({ quiet }: { quiet?: boolean }) {
  const t = useText(text);
  const found = useLimits();
  const now = useNow(30);
  if (!found) return null;
  const windows = openWindows(found.windows, now);
  if (quiet && found.budgets.length === 0 && windows.length === 0) return null;
  return (
    <Section title={t.title}>
      <Grid min="22rem">
        {found.budgets.length > 0 ? <Budgets limits={found} /> : !quiet && <NoBudget />}
        {windows.length > 0 && <Windows windows={windows} now={now} />}
      </Grid>
    </Section>
  );
}

function NoBudget() {
  const t = useText(text);
  const hooks = useTypeable()("agenttrace hooks install claude-code");
  return (
    <div className={styles.list}>
      <p className="soft">{t.none}</p>
      <Code label={t.budgets} text={`${EXAMPLE}\n\n$ ${hooks}`} bare />
      <p className="faint">{t.more}</p>
    </div>
  );
}

function Budgets({ limits }: { limits: AgentLimits }) {
  const t = useText(text);
  const f = useFormat();
  return (
    <div className={styles.list}>
      <h3>{t.budgets}</h3>
      {limits.budgets.map((budget) => (
        <Budget key={`${budget.name} ${budget.session_key}`} budget={budget} hours={limits.recent_hours} />
      ))}
      {limits.sessions_left_out > 0 && <p className="faint">{t.moreSessions(f.count(limits.sessions_left_out))}</p>}
    </div>
  );
}

function Budget({ budget, hours }: { budget: AgentBudget; hours: number }) {
  const t = useText(text);
  const f = useFormat();
  const label = t.budget(budget.name, t.periods[budget.period]);
  return (
    <div>
      {budget.spent === null ? (
        <p>
          {label}. <span className={styles.warning}>{t.unknown(budget.problem ?? "")}</span>
        </p>
      ) : (
        <Meter
          label={label}
          limit={budget.limit}
          parts={[{ name: t.used, value: budget.spent, tone: tone(budget.share) }]}
          say={(value) => amount(f, budget, value)}
        />
      )}
      {budget.session_key && (
        <Link href={`/sessions/${budget.session_key}`} className={styles.note}>
          <Text line>{budget.session_title || (budget.session ?? "")}</Text>
        </Link>
      )}
      <p className={styles.note}>{notes(f, t, budget, hours).join(" · ")}</p>
    </div>
  );
}

function notes(f: Format, t: typeof text.en, budget: AgentBudget, hours: number): string[] {
  const say = (value: number) => amount(f, budget, value);
  const found = pace(budget);
  const originals = Object.entries(budget.amounts).map(([currency, value]) => f.money(value, currency));
  return [
    ...(found ? [t.rate(say(found.rate), say(found.recent), hours), t.forecast(say(found.forecast))] : []),
    ...(budget.reached_at ? [t.reached(f.clock(budget.reached_at))] : []),
    ...(budget.unit === "money" && budget.spent !== null && budget.unpriced_tokens > 0
      ? [t.unpriced(f.tokens(budget.unpriced_tokens))]
      : []),
    ...(budget.unit === "money" && budget.spent !== null && originals.length > 1 ? [t.original(originals.join(" + "))] : []),
  ];
}

function Windows({ windows, now }: { windows: ProviderWindow[]; now: number }) {
  const t = useText(text);
  return (
    <div className={styles.list}>
      <h3>{t.windows}</h3>
      {windows.map((each) => (
        <Window key={`${each.agent} ${each.name}`} window={each} now={now} />
      ))}
    </div>
  );
}

function Window({ window: each, now }: { window: ProviderWindow; now: number }) {
  const t = useText(text);
  const f = useFormat();
  const label = t.window(each.agent, t.lengths[each.minutes ?? 0] ?? each.name);
  const left = f.duration(Math.max(Date.parse(each.resets_at) - now, 0));
  if (each.share === null) {
    return (
      <div>
        <p>{label}</p>
        <p className={styles.note}>{t.estimated(f.tokens(each.tokens), left)}</p>
      </div>
    );
  }
  return (
    <div>
      <Meter
        label={label}
        limit={1}
        parts={[{ name: t.used, value: each.share, tone: tone(each.share) }]}
        say={(value) => f.percent(value)}
      />
      <p className={styles.note}>
        {t.resets(left)}
        {each.exhausted_at && <span className={styles.warning}> · {t.exhausted(f.clock(each.exhausted_at))}</span>}
      </p>
    </div>
  );
}
