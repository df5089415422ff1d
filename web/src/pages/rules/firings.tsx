/** Firings as a table: of all sessions, or of one. */
import { Link } from "wouter";

import type { RuleFiring } from "../../api/shapes";
import { useFormat } from "../../format";
import type { Column } from "../../parts";
import { Table, Text, Time } from "../../parts";
import { useText } from "../../text";
import { address } from "../../url";
import { Money } from "./cost";
import { factsText } from "./facts-text";
import { useReason } from "./reason";
import styles from "./rules.module.css";
import { StateBadge } from "./state-badge";
import { text } from "./text";

interface FiringsProps {
  rows: RuleFiring[];
  onOpen: (row: RuleFiring) => void;
  /** Without the session, which is known. */
  ofSession?: boolean;
}

export function Firings({ rows, onOpen, ofSession }: FiringsProps) {
  const t = useText(text);
  const f = useFormat();
  const reason = useReason();
  const all: Column<RuleFiring>[] = [
    {
      name: "rule",
      title: t.rule,
      lead: true,
      width: "8rem",
      cell: (row) => (
        <button type="button" className={styles.link} aria-label={`${t.open(row.id)}: ${row.rule}`} onClick={() => onOpen(row)}>
          <Text>{row.rule}</Text>
        </button>
      ),
    },
    { name: "state", title: t.state, width: "7.5rem", cell: (row) => <StateBadge state={row.state} /> },
    { name: "event", title: t.event, width: "7.5rem", cell: (row) => t.events[row.event as keyof typeof t.events] ?? row.event },
    { name: "about", title: t.about, cell: (row) => <About row={row} /> },
    { name: "reason", title: t.reason, cell: (row) => <Text>{reason(row) || "–"}</Text> },
    { name: "tokens", title: t.tokens, end: true, width: "4.5rem", cell: (row) => (row.tokens > 0 ? f.count(row.tokens) : "–") },
    { name: "cost", title: t.cost, end: true, width: "4.5rem", cell: (row) => <Money cost={row.cost} /> },
    { name: "at", title: t.at, width: "6.5rem", cell: (row) => <Time at={row.at} /> },
  ];
  const columns = ofSession ? all.filter((column) => !["about", "tokens", "cost"].includes(column.name)) : all;
  return <Table label={t.log} columns={columns} rows={rows} rowKey={(row) => row.id} onOpen={onOpen} />;
}

function About({ row }: { row: RuleFiring }) {
  const t = useText(text);
  const facts = factsText(row.facts);
  if (row.session === null) return <Text>{facts}</Text>;
  return (
    <span>
      <Link href={`/sessions/${row.session}`}>
        <Text>{row.title ?? row.session_id ?? row.session}</Text>
      </Link>{" "}
      {facts && <Text className="faint">{facts}</Text>}{" "}
      {row.span_id && <Link href={address(`/sessions/${row.session}`, { span: row.span_id })}>{t.span}</Link>}
    </span>
  );
}
