/** What stands out, by kind: each with a sentence, what it cost, and links to its spans. */
import type { ReactNode } from "react";
import { useMemo, useState } from "react";
import { Link } from "wouter";

import { useGet } from "../../api/queries";
import type { Finding, Findings } from "../../api/shapes";
import type { Format } from "../../format";
import { useFormat } from "../../format";
import { Button, Empty, Failed, Loading, Section, Text, Time } from "../../parts";
import { useText } from "../../text";
import styles from "./insights.module.css";
import type { Question } from "./question";
import { apiParams, placeOf } from "./question";
import { text } from "./text";

type Kind = Finding["kind"];
type Words = (typeof text)["en"];

/** How many of each kind are shown at first, and how many sessions of an error. */
const FEW = 5;
const PLACES = 2;

interface FindingListProps {
  question: Question;
  onClear: () => void;
}

/** Each kind is asked for by itself: the quick ones are there while others are computed. */
export function FindingList({ question, onClear }: FindingListProps) {
  const t = useText(text);
  const loops = useKind("retry_loop", question);
  const repeated = useKind("repeated_failure", question);
  const breaks = useKind("cache_break", question);
  const turns = useKind("expensive_turn", question);
  const waits = useKind("long_wait", question);
  const all = [loops, repeated, breaks, turns, waits];
  const failed = all.find(({ query }) => query.error && query.data === undefined);
  const loading = all.some(({ query }) => query.data === undefined && !query.error);
  if (failed) {
    const retry = () => all.forEach(({ query }) => void (query.error && query.refetch()));
    return <Failed error={failed.query.error} retry={retry} />;
  }
  const found = all.filter(({ query }) => (query.data?.items.length ?? 0) > 0);
  if (!loading && found.length === 0)
    return (
      <Empty icon="insights" title={t.noFindings}>
        <p>{t.longer}</p>
        <Button onClick={onClear}>{t.clearFilters}</Button>
      </Empty>
    );
  return (
    <div className={styles.kinds}>
      {found.map(({ kind, query }) => (
        <KindSection key={kind} kind={kind} items={query.data?.items ?? []} />
      ))}
      {loading && <Loading lines={6} />}
    </div>
  );
}

function useKind(kind: Kind, question: Question) {
  const asked = useMemo(() => ({ ...apiParams(question), kind }), [kind, question]);
  return { kind, query: useGet<Findings>("/insights/findings", asked, { keep: true, fresh: 30_000 }) };
}

function KindSection({ kind, items }: { kind: Kind; items: readonly Finding[] }) {
  const t = useText(text);
  const f = useFormat();
  const [all, setAll] = useState(false);
  return (
    <Section title={t.kinds[kind]}>
      <p className={styles.kindNote}>{t.kindNotes[kind]}</p>
      <ol className={styles.list} role="list">
        {(all ? items : items.slice(0, FEW)).map((item) => (
          <FindingItem key={keyOf(item)} finding={item} />
        ))}
      </ol>
      {!all && items.length > FEW && (
        <Button tone="quiet" small onClick={() => setAll(true)}>
          {t.more(f.count(items.length - FEW))}
        </Button>
      )}
    </Section>
  );
}

function keyOf({ tool, error, arguments: given, spans }: Finding): string {
  return [tool, error, given, spans[0]?.session, spans[0]?.span_id].join("\n");
}

function FindingItem({ finding }: { finding: Finding }) {
  const t = useText(text);
  const f = useFormat();
  const [first] = finding.spans;
  const said = sentenceOf(finding, t, f);
  return (
    <li className={styles.item}>
      <div className={styles.said}>
        {first ? (
          <Link href={placeOf(first, finding.kind)} className={styles.link}>
            {said}
          </Link>
        ) : (
          said
        )}
        <Detail finding={finding} />
      </div>
      <Figures finding={finding} />
      <Places finding={finding} />
    </li>
  );
}

/** The sentence of a finding in the language of the page. */
export function sentenceOf(finding: Finding, t: Words, f: Format): string {
  const { kind, tool, turn } = finding;
  const name = tool ?? "";
  if (kind === "retry_loop") return t.said.loop(name, f.count(finding.count), turn ?? 0);
  if (kind === "repeated_failure") return t.said.repeated(name, f.count(finding.count), f.count(finding.sessions));
  if (kind === "cache_break") return t.said.lost(f.tokens(finding.tokens), turn ?? 0);
  if (kind === "expensive_turn") return t.said.turn(turn ?? 0, f.count(finding.count));
  return tool ? t.said.asked(tool, f.duration(finding.duration_ms)) : t.said.waited(f.duration(finding.duration_ms), turn ?? 0);
}

/** What was tried, or what the error was. */
function Detail({ finding }: { finding: Finding }): ReactNode {
  const t = useText(text);
  const f = useFormat();
  const { kind, error, arguments: given } = finding;
  return (
    <>
      {given && (
        <code className={styles.given}>
          <Text line>{given}</Text>
        </code>
      )}
      {error && (
        <span className={styles.error}>
          <Text line>{error}</Text>
        </span>
      )}
      {kind === "cache_break" && finding.pause_ms ? <span className="faint">{t.said.after(f.duration(finding.pause_ms))}</span> : null}
    </>
  );
}

/** Money, tokens and time; what the sentence says already is left out. */
function Figures({ finding }: { finding: Finding }) {
  const t = useText(text);
  const f = useFormat();
  const { kind, tokens } = finding;
  const money = Object.entries(finding.costs).map(([currency, amount]) => f.money(amount, currency));
  return (
    <div className={styles.figures}>
      {money.length > 0 && <strong className={styles.money}>{money.join(" + ")}</strong>}
      {tokens !== null && kind !== "cache_break" && <span title={f.count(tokens)}>{t.tokens(f.tokens(tokens))}</span>}
      {finding.duration_ms !== null && kind !== "long_wait" && <span>{t.took(f.duration(finding.duration_ms))}</span>}
    </div>
  );
}

/** The session of a finding, or several of them. */
function Places({ finding }: { finding: Finding }) {
  const t = useText(text);
  const one = finding.sessions === 1;
  const spans = one ? finding.spans.slice(0, 1) : finding.spans.slice(0, PLACES);
  return (
    <ul className={styles.places} aria-label={t.places} role="list">
      {spans.map((span) => (
        <li key={`${span.session} ${span.span_id}`}>
          <Link href={one ? `/sessions/${span.session}` : placeOf(span, finding.kind)} className={styles.place}>
            <Text line>{span.title ?? span.session_id}</Text>
          </Link>
          <span className="faint">
            <Time at={span.at} />
          </span>
        </li>
      ))}
    </ul>
  );
}
