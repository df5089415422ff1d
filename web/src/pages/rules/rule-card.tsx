/** One rule: what it is about, its switch, its figures, and why it is paused. */
import { useState } from "react";

import { change } from "../../api/client";
import { useIsAdmin } from "../../api/queries";
import type { Rule, RuleAction } from "../../api/shapes";
import { useFormat } from "../../format";
import { Badge, Button, Confirm, Facts, Icon, Segmented, Text, Time, visible } from "../../parts";
import { useText } from "../../text";
import { Money } from "./cost";
import { durationText } from "./draft";
import styles from "./rules.module.css";
import { text } from "./text";
import { TrialDrawer } from "./trial";
import { useChange } from "./use-change";

const MODES = ["on", "dry", "off"] as const;
type Mode = Rule["mode"];

export function RuleCard({ rule, onEdit }: { rule: Rule; onEdit: () => void }) {
  const t = useText(text);
  // Titles of rules that ship are in the language of the page; others are the user's own words.
  const title = rule.origin === "ready" ? (t.readyTitles[rule.name as keyof typeof t.readyTitles] ?? rule.title) : rule.title;
  return (
    <article className={styles.card} aria-label={visible(rule.name)}>
      <div className={styles.head}>
        <h3>
          <Text>{rule.name}</Text> {title && <Text className={styles.what}>{title}</Text>}
        </h3>
        <Switch rule={rule} />
      </div>
      <p className={styles.sentence}>
        <span>{t.when(t.events[rule.on])}</span>
        <Conditions rule={rule} />
        <span aria-hidden="true">→</span>
        {rule.do.map((action) => (
          <ActionBadge key={action.name} action={action} />
        ))}
      </p>
      <Paused rule={rule} />
      <div className={styles.foot}>
        <Figures rule={rule} />
        <Ways rule={rule} onEdit={onEdit} />
      </div>
    </article>
  );
}

function useSwitch(rule: Rule) {
  const t = useText(text);
  return useChange<Mode>(
    (mode) => change("PATCH", `/rules/${encodeURIComponent(rule.name)}`, { mode }),
    (mode) => t.switched(rule.name, t.modes[mode]),
  );
}

function Switch({ rule }: { rule: Rule }) {
  const t = useText(text);
  const admin = useIsAdmin();
  const switching = useSwitch(rule);
  if (!admin) return <Badge tone={rule.mode === "on" ? "working" : "plain"}>{t.modes[rule.mode]}</Badge>;
  return (
    <Segmented<Mode>
      label={t.mode(rule.name)}
      value={switching.isPending ? switching.variables : rule.mode}
      onChange={(mode) => switching.mutate(mode)}
      choices={MODES.map((mode) => ({ value: mode, label: t.modes[mode], title: t.modeHints[mode] }))}
    />
  );
}

/** Filters and times, in a few words. */
function Conditions({ rule }: { rule: Rule }) {
  const t = useText(text);
  const parts = Object.entries(rule.where).map(([name, value]) => {
    if (name === "errors") return value ? t.withErrors : t.withoutErrors;
    const label = t.filters[name as keyof typeof t.filters] ?? name;
    return `${label} ${Array.isArray(value) ? value.join(", ") : String(value)}`;
  });
  const times = [
    rule.settle_seconds > 0 ? t.settle(durationText(rule.settle_seconds)) : "",
    rule.cooldown_seconds > 0 ? t.cooldown(durationText(rule.cooldown_seconds)) : "",
  ].filter(Boolean);
  return (
    <>
      {parts.length > 0 && <Text className="soft">{t.only(parts.join("; "))}</Text>}
      {times.map((time) => (
        <span key={time} className="soft">
          {time}
        </span>
      ))}
    </>
  );
}

function ActionBadge({ action }: { action: RuleAction }) {
  const t = useText(text);
  const about = action.address ?? action.apps.join(", ") ?? action.command;
  return (
    <Badge tone={action.missing.length > 0 ? "waiting" : "plain"} title={action.missing.length > 0 ? t.missing(action.missing.join(", ")) : undefined}>
      <Text>{action.name}</Text> <span className="faint">{t.types[action.type]}</span> {about && <Text className="faint">{about}</Text>}
    </Badge>
  );
}

function Paused({ rule }: { rule: Rule }) {
  const t = useText(text);
  const admin = useIsAdmin();
  const switching = useSwitch(rule);
  const missing = rule.do.flatMap((action) => action.missing);
  if (rule.mode === "off" || (!rule.paused && missing.length === 0)) return null;
  return (
    <p className={styles.trouble}>
      <Icon name="warn" />
      {rule.paused ? (
        <>
          <span>
            <strong>{t.paused}</strong> <Text>{rule.paused}</Text>
          </span>
          {admin && (
            <Button small busy={switching.isPending} onClick={() => switching.mutate(rule.mode)}>
              {t.goOn}
            </Button>
          )}
        </>
      ) : (
        <span>{t.missing(missing.join(", "))}</span>
      )}
    </p>
  );
}

function Figures({ rule }: { rule: Rule }) {
  const t = useText(text);
  const f = useFormat();
  return (
    <div className={styles.figures}>
      <Facts
        facts={[
          [t.today, t.todayOf(f.count(rule.fired_today), f.count(rule.max_per_day))],
          [
            t.tokensToday,
            rule.tokens_per_day !== null || rule.tokens_today > 0
              ? rule.tokens_per_day === null
                ? f.count(rule.tokens_today)
                : t.todayOf(f.count(rule.tokens_today), f.count(rule.tokens_per_day))
              : undefined,
          ],
          [t.costToday, rule.cost_today !== null ? <Money key="cost" cost={rule.cost_today} /> : undefined],
          [t.last, rule.last_fired_at ? <Time key="last" at={rule.last_fired_at} /> : t.never],
        ]}
      />
    </div>
  );
}

function Ways({ rule, onEdit }: { rule: Rule; onEdit: () => void }) {
  const t = useText(text);
  const admin = useIsAdmin();
  const [shown, setShown] = useState<"trial" | "remove" | null>(null);
  const removing = useChange<void>(
    () => change("DELETE", `/rules/${encodeURIComponent(rule.name)}`),
    () => t.removed(rule.name),
    true,
  );
  const close = () => setShown(null);
  return (
    <div className={styles.ways}>
      <Badge>{t.origins[rule.origin as keyof typeof t.origins]}</Badge>
      <Button small tone="quiet" onClick={() => setShown("trial")}>
        {t.tryIt}
      </Button>
      {admin && rule.origin !== "file" && (
        <Button small tone="quiet" onClick={onEdit}>
          {t.edit}
        </Button>
      )}
      {admin && rule.origin === "console" && (
        <Button small tone="quiet" onClick={() => setShown("remove")}>
          {t.remove}
        </Button>
      )}
      {shown === "trial" && <TrialDrawer name={rule.name} onClose={close} />}
      {shown === "remove" && (
        <Confirm
          open
          danger
          title={t.removeTitle(rule.name)}
          yes={t.remove.replace("…", "")}
          busy={removing.isPending}
          error={removing.error}
          onYes={() => removing.mutate(undefined, { onSuccess: close })}
          onClose={close}
        >
          {t.removeWhat}
        </Confirm>
      )}
    </div>
  );
}
