/** The numbers of every group, with their sums. */
import type { ReactNode } from "react";
import { useMemo, useState } from "react";
import { Link, useLocation } from "wouter";

import type { Bill, UsageAnswer, UsageGroup, UsageOutcomes } from "../../api/shapes";
import type { Format } from "../../format";
import { useFormat } from "../../format";
import type { Column, Sort } from "../../parts";
import { modelCss } from "../../models";
import { Button, Cost, ModelName, PathText, Table, Text } from "../../parts";
import { useText } from "../../text";
import { useParams } from "../../url";
import type { Measure } from "./measure";
import { amountOf, ranked } from "./measure";
import type { Question } from "./question";
import { nextOf } from "./question";
import { ShareBar } from "./share-bar";
import { text } from "./text";
import styles from "./usage-table.module.css";

interface UsageTableProps {
  answer: UsageAnswer;
  question: Question;
  measure: Measure;
  /** Also the parts of each group. */
  parts: boolean;
}

/** A group or a part of one. */
interface Line {
  id: string;
  group: UsageGroup;
  part: string | null;
  bill: Bill;
}

const PAGE = 100;

export function UsageTable({ answer, question, measure, parts }: UsageTableProps) {
  const t = useText(text);
  const f = useFormat();
  const params = useParams();
  const [, navigate] = useLocation();
  const [most, setMost] = useState(PAGE);
  const sort = sortOf(params.text("sort"), params.text("order"), question);
  const rows = useMemo(() => sorted(answer.rows, sort.by, sort.order, measure), [answer, sort.by, sort.order, measure]);
  const lines = rows.slice(0, most).flatMap((row) => linesOf(row, parts));
  const columns = useMemo(() => columnsOf(answer, question, measure, t, f), [answer, question, measure, t, f]);
  const open = ({ group }: Line) => {
    const next = nextOf(group, question);
    if (next) navigate(next);
  };
  return (
    <>
      <div className={styles.frame}>
        <Table
          label={t.table}
          columns={columns}
          rows={lines}
          rowKey={(line) => line.id}
          sort={sort}
          onSort={({ by, order }) => params.change({ sort: by, order })}
          onOpen={open}
          foot={(column) => sumOf(column.name, answer, t, f)}
        />
      </div>
      {rows.length > most && (
        <div>
          <Button onClick={() => setMost(most + PAGE * 5)}>{t.more(f.count(Math.min(rows.length - most, PAGE * 5)))}</Button>
        </div>
      )}
    </>
  );
}

/** Time is read from now on back, everything else from the largest on down. */
function sortOf(by: string, order: string, question: Question): Sort {
  const usual = question.by === "day" || question.by === "month" ? "group" : "share";
  const known = by === "group" || by === "share" || Object.hasOwn(NUMBERS, by) || Object.hasOwn(OUTCOMES, by) ? by : usual;
  return { by: known, order: order === "asc" ? "asc" : "desc" };
}

const NUMBERS: Record<string, (bill: Bill) => number> = {
  requests: (bill) => bill.requests,
  input: (bill) => bill.input_tokens,
  cacheRead: (bill) => bill.cache_read_tokens,
  cacheWrite: (bill) => bill.cache_write_tokens,
  output: (bill) => bill.output_tokens,
  reasoning: (bill) => bill.reasoning_tokens,
  cost: (bill) => Math.max(0, ...Object.values(bill.costs)),
};

/** Numbers of what came of a group; null, which is always last, where there is none. */
export const OUTCOMES: Record<string, (outcomes: UsageOutcomes) => number | null> = {
  lines: ({ added, removed }) => (added === null || removed === null ? null : added + removed),
  commits: ({ commits }) => commits,
  perCommit: ({ cost_per_commit: costs }) => (Object.keys(costs).length > 0 ? Math.max(...Object.values(costs)) : null),
};

function sorted(rows: readonly UsageGroup[], by: string, order: Sort["order"], measure: Measure): UsageGroup[] {
  const value = NUMBERS[by];
  const came = OUTCOMES[by];
  if (came) return byOutcome(rows, came, order);
  let found: UsageGroup[];
  if (by === "group") found = rows.toSorted((one, other) => ((one.group ?? "") < (other.group ?? "") ? 1 : -1));
  else if (value) found = rows.toSorted((one, other) => value(other.bill) - value(one.bill));
  else found = ranked(rows, measure);
  return order === "asc" ? found.toReversed() : found;
}

function byOutcome(rows: readonly UsageGroup[], value: (outcomes: UsageOutcomes) => number | null, order: Sort["order"]): UsageGroup[] {
  const sign = order === "asc" ? 1 : -1;
  return rows.toSorted(({ outcomes: one }, { outcomes: other }) => {
    const [a, b] = [value(one), value(other)];
    return a === null || b === null ? Number(a === null) - Number(b === null) : sign * (a - b);
  });
}

function linesOf(row: UsageGroup, parts: boolean): Line[] {
  const id = row.key ?? row.group ?? "";
  const whole: Line = { id, group: row, part: null, bill: row.bill };
  if (!parts) return [whole];
  const divided = row.parts.map(({ name, bill }) => ({ id: `${id}\n${name}`, group: row, part: name, bill }));
  return [whole, ...divided];
}

type Words = (typeof text)["en"];

function columnsOf(answer: UsageAnswer, question: Question, measure: Measure, t: Words, f: Format): Column<Line>[] {
  const names = [t.requests, t.input, t.cacheRead, t.cacheWrite, t.output, t.reasoning];
  const numbers = Object.entries(NUMBERS)
    .slice(0, names.length)
    .map(([name, value], at): Column<Line> => ({
      name,
      title: names[at] ?? name,
      end: true,
      sortable: true,
      cell: ({ bill }) => numberOf(name, value(bill), f),
    }));
  return [
    {
      name: "group",
      title: t.bys[question.by],
      lead: true,
      sortable: true,
      cell: (line) => <Name line={line} question={question} />,
    },
    ...numbers,
    { name: "cost", title: t.cost, end: true, sortable: true, cell: ({ bill }) => <Cost bill={bill} /> },
    ...outcomeColumns(answer, t),
    {
      name: "share",
      title: t.share,
      end: true,
      sortable: true,
      width: "6.5rem",
      cell: (line) => <Share line={line} whole={amountOf(answer.total, measure)} measure={measure} />,
    },
  ];
}

/** Lines and commits, where there are any; which part of a group they belong to is not known. */
function outcomeColumns(answer: UsageAnswer, t: Words): Column<Line>[] {
  if (answer.total_outcomes.known_from.length === 0) return [];
  const commits: [string, string][] = [
    ["commits", t.commits],
    ["perCommit", t.perCommit],
  ];
  const titles: [string, string][] = [["lines", t.lines], ...(answer.total_outcomes.commits > 0 ? commits : [])];
  return titles.map(([name, title]) => ({
    name,
    title,
    end: true,
    sortable: true,
    cell: ({ part, group }) => (part === null ? <Came name={name} outcomes={group.outcomes} bill={group.bill} /> : ""),
  }));
}

/** A figure of what came of a group, with where it is known from as a hint; a dash where there is none. */
function Came({ name, outcomes, bill }: { name: string; outcomes: UsageOutcomes; bill: Bill }) {
  const t = useText(text);
  const f = useFormat();
  const known = outcomes.known_from.map((source) => t.sources[source]).join(", ");
  const hint = known ? t.knownFrom(known) : undefined;
  return <span title={hint}>{cameOf(name, outcomes, bill, f)}</span>;
}

export function cameOf(name: string, outcomes: UsageOutcomes, bill: Pick<Bill, "unpriced_tokens">, f: Format): string {
  if (outcomes.known_from.length === 0) return "–";
  if (name === "lines") {
    const number = (lines: number | null) => (lines === null ? "?" : f.count(lines));
    if (outcomes.added === 0 && outcomes.removed === 0) return "–";
    return `+${number(outcomes.added)} −${number(outcomes.removed)}`;
  }
  if (outcomes.commits === 0) return "–";
  if (name === "commits") return f.count(outcomes.commits);
  return f.cost({ costs: outcomes.cost_per_commit, unpriced_tokens: bill.unpriced_tokens });
}

function Name({ line, question }: { line: Line; question: Question }) {
  const t = useText(text);
  const f = useFormat();
  const { group, part } = line;
  if (part !== null) {
    const said = question.split === "model" ? <ModelPart id={part} /> : <Text line>{part}</Text>;
    return <span className={styles.part}>{part ? said : t.none}</span>;
  }
  const next = nextOf(group, question);
  let name: ReactNode = <Text line>{group.group}</Text>;
  if (question.by === "day") name = <span className={styles.day}>{f.day(group.group)}</span>;
  if (question.by === "project" && group.group !== null) name = <PathText>{group.group}</PathText>;
  if (question.by === "model" && group.group !== null) name = <ModelPart id={group.group} />;
  if (question.by === "session") name = <Text line>{group.title ?? group.group ?? t.untitled}</Text>;
  if (group.group === null) name = question.by === "project" ? t.noProject : t.none;
  return next ? (
    <Link href={next} className={styles.name}>
      {name}
    </Link>
  ) : (
    <span className="soft">{name}</span>
  );
}

/** A model with its colour in charts. */
function ModelPart({ id }: { id: string }) {
  return (
    <span className={styles.model}>
      <span className={styles.colour} style={{ background: modelCss(id) }} aria-hidden="true" />
      <ModelName id={id} className={styles.cut} />
    </span>
  );
}

function Share({ line, whole, measure }: { line: Line; whole: number; measure: Measure }) {
  const f = useFormat();
  const amount = amountOf(line.bill, measure);
  // Without a price the share of the cost is unknown.
  const unknown = amount === 0 && measure !== "tokens" && line.bill.unpriced_tokens > 0;
  return (
    <span className={styles.share} data-part={line.part !== null || undefined}>
      <ShareBar share={whole ? amount / whole : 0} />
      <span>{unknown ? "?" : f.percent(amount, whole)}</span>
    </span>
  );
}

function sumOf(column: string, { total, total_outcomes: outcomes }: UsageAnswer, t: Words, f: Format): ReactNode {
  const value = NUMBERS[column];
  if (column === "group") return t.total;
  if (column === "cost") return <Cost bill={total} />;
  if (Object.hasOwn(OUTCOMES, column)) return <Came name={column} outcomes={outcomes} bill={total} />;
  if (!value) return "";
  return numberOf(column, value(total), f);
}

/** Tokens in a few characters, with the exact number as a hint. */
function numberOf(column: string, value: number, f: Format): ReactNode {
  return <span title={f.count(value)}>{column === "requests" ? f.count(value) : f.tokens(value)}</span>;
}
