/** One firing: its event, its actions and every attempt; run it again. */
import { Link } from "wouter";

import { post } from "../../api/client";
import { useGet, useIsAdmin } from "../../api/queries";
import type { RuleAttempt, RuleFiringAction, RuleFiringDetail } from "../../api/shapes";
import { useFormat } from "../../format";
import type { Column } from "../../parts";
import { Badge, Button, Drawer, Facts, Loaded, Table, Text, Time } from "../../parts";
import { useText } from "../../text";
import { address } from "../../url";
import { Money, Unknown } from "./cost";
import { factsText } from "./facts-text";
import { useReason } from "./reason";
import styles from "./rules.module.css";
import { StateBadge } from "./state-badge";
import { text } from "./text";
import { useChange } from "./use-change";

const AGAIN = ["failed", "skipped", "dry"];

export function FiringDrawer({ id, onClose }: { id: number; onClose: () => void }) {
  const t = useText(text);
  const query = useGet<RuleFiringDetail>(`/rules/firings/${id}`, {}, { every: 2000 });
  return (
    <Drawer open onClose={onClose} title={t.open(id)} actions={query.data && <Again firing={query.data} />}>
      <Loaded query={query}>{(firing) => <Inside firing={firing} />}</Loaded>
    </Drawer>
  );
}

function Again({ firing }: { firing: RuleFiringDetail }) {
  const t = useText(text);
  const admin = useIsAdmin();
  const again = useChange<void>(
    () => post(`/rules/firings/${firing.id}/retry`),
    () => t.queued,
  );
  if (!admin || !AGAIN.includes(firing.state)) return null;
  return (
    <Button busy={again.isPending} onClick={() => again.mutate()}>
      {firing.state === "failed" ? t.retry : t.fireNow}
    </Button>
  );
}

function Inside({ firing }: { firing: RuleFiringDetail }) {
  const t = useText(text);
  const f = useFormat();
  const facts = factsText(firing.facts);
  const reason = useReason()(firing);
  return (
    <div className={styles.trial}>
      <Facts
        facts={[
          [t.rule, <Text key="rule">{firing.rule}</Text>],
          [t.state, <StateBadge key="state" state={firing.state} />],
          [t.reason, reason ? <Text key="reason">{reason}</Text> : undefined],
          [t.event, t.events[firing.event as keyof typeof t.events] ?? firing.event],
          [t.about, firing.session ? <Place key="about" firing={firing} /> : undefined],
          [t.facts, facts ? <Text key="facts">{facts}</Text> : undefined],
          [t.at, <Time key="at" at={firing.at} as="exact" />],
          [t.fired, firing.fired_at ? <Time key="fired" at={firing.fired_at} as="exact" /> : undefined],
          [t.due, firing.due_at ? <Time key="due" at={firing.due_at} as="exact" /> : undefined],
          [t.ended, firing.ended_at ? <Time key="ended" at={firing.ended_at} as="exact" /> : undefined],
          [t.tokens, firing.tokens > 0 ? f.count(firing.tokens) : undefined],
          [t.cost, firing.cost !== null ? <Money key="cost" cost={firing.cost} /> : undefined],
        ]}
      />
      <Unknown cost={firing.cost} />
      {firing.message !== null && <p className="soft">{t.inMessage(firing.message)}</p>}
      {firing.actions.length === 0 && firing.message === null && <p className="faint">{t.noActions}</p>}
      {firing.actions.map((action) => (
        <Action key={action.idempotency_key} action={action} />
      ))}
    </div>
  );
}

function Place({ firing }: { firing: RuleFiringDetail }) {
  return (
    <Link href={address(`/sessions/${firing.session}`, { span: firing.span_id })}>
      <Text>{firing.title ?? firing.session_id ?? firing.session}</Text>
    </Link>
  );
}

function Action({ action }: { action: RuleFiringAction }) {
  const t = useText(text);
  const f = useFormat();
  const columns: Column<RuleAttempt>[] = [
    { name: "outcome", title: t.outcome, lead: true, width: "5rem", cell: (row) => row.outcome },
    { name: "detail", title: t.detail, cell: (row) => <Text>{row.detail}</Text> },
    { name: "seconds", title: t.seconds, end: true, width: "5rem", cell: (row) => row.seconds.toFixed(2) },
    { name: "at", title: t.at, width: "8rem", cell: (row) => <Time at={row.at} /> },
  ];
  return (
    <section className={styles.action}>
      <h3>
        <Text>{action.name}</Text> <Badge tone={action.state === "failed" ? "failed" : action.state === "done" ? "working" : "plain"}>{t.states[action.state]}</Badge>{" "}
        {action.tokens > 0 && (
          <span className="faint">
            {t.tokens} {f.count(action.tokens)}, {t.cost} <Money cost={action.cost} />
          </span>
        )}
      </h3>
      {action.attempts.length > 0 && (
        <Table label={t.attemptsOf(action.name)} columns={columns} rows={action.attempts} rowKey={(row) => `${row.at} ${row.detail}`} />
      )}
      <Facts
        facts={[
          [t.key, <code key="key" className={styles.key}>{action.idempotency_key}</code>],
          [t.answer, action.answer ? <Text key="answer">{action.answer}</Text> : undefined],
        ]}
      />
    </section>
  );
}
