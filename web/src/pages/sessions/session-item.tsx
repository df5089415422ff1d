/** A session in the list: a row of columns, or a card of two lines on narrow screens. */
import { memo, useRef } from "react";
import { Link } from "wouter";

import type { OutcomeFigures, SessionRow } from "../../api/shapes";
import type { Format } from "../../format";
import { useFormat } from "../../format";
import { modelName } from "../../models";
import { Cost, Elapsed, PathText, StateMark, Text, Time, Tokens, visible } from "../../parts";
import { useText } from "../../text";
import { MarkedText, piecesOf } from "./marked-text";
import { markSeen } from "./seen";
import styles from "./session-item.module.css";
import { text } from "./text";

interface SessionItemProps {
  row: SessionRow;
  unseen: boolean;
  /** In a list with a column for person and machine. */
  team?: boolean;
  /** Marked in the title. */
  sought: string;
  onFocus: (key: string) => void;
  /** Selected to be compared. */
  picked: boolean;
  onPick: (key: string) => void;
}

/** The link of a row, by which it is focused. */
export function linkId(key: string): string {
  return `session-${key}`;
}

export const SessionItem = memo(function SessionItem({ row, unseen, team, sought, onFocus, picked, onPick }: SessionItemProps) {
  const t = useText(text);
  const f = useFormat();
  const link = useRef<HTMLAnchorElement>(null);
  const title = row.title?.trim() || t.untitled;
  return (
    // What lies above the link of the row because of its hint is a part of that link, too.
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-noninteractive-element-interactions
    <article
      className={styles.row}
      data-team={team || undefined}
      data-unseen={unseen || undefined}
      data-state={row.state}
      data-picked={picked || undefined}
      onClick={(event) => event.target instanceof Element && !event.target.closest("a, input") && link.current?.click()}
    >
      <span className={styles.state}>
        {/* The list has a key for it: Tab goes from session to session. */}
        <input
          type="checkbox"
          tabIndex={-1}
          className={styles.pick}
          aria-label={t.comparing.pick(visible(title))}
          title={`${t.comparing.key} (v)`}
          checked={picked}
          onChange={() => onPick(row.key)}
        />
        <span className={styles.dot} title={unseen ? t.unseen : undefined} />
        <StateMark state={row.state} />
      </span>
      <div className={styles.what}>
        <Link
          ref={link}
          id={linkId(row.key)}
          href={`/sessions/${row.key}`}
          className={styles.title}
          title={visible(title)}
          onClick={() => markSeen(row)}
          onFocus={() => onFocus(row.key)}
        >
          {row.marks.starred && (
            <span className={styles.star} role="img" aria-label={t.starred}>
              ★{" "}
            </span>
          )}
          <MarkedText pieces={piecesOf(title, sought)} />
          {unseen && <span className="unseen"> ({t.unseen})</span>}
        </Link>
        <span className={styles.where}>
          <Marks row={row} />
          {row.project ? <PathText className={styles.project}>{row.project}</PathText> : null}
          {row.branch ? <Text line className={styles.branch}>{row.branch}</Text> : null}
        </span>
      </div>
      <div className={styles.who}>
        <Text line className={styles.agent}>
          {row.agent}
        </Text>
        {team && row.person !== null && (
          <Text line className={styles.owner}>
            {row.person}
          </Text>
        )}
        <Models row={row} />
        {row.project ? <PathText className={styles.place}>{row.project}</PathText> : null}
      </div>
      {team && (
        <div className={styles.team}>
          <Text line>{row.person ?? "–"}</Text>
          <Text line className={styles.model} none="">
            {row.machine}
          </Text>
        </div>
      )}
      <div className={styles.when}>
        <Time at={row.last_at} />
        <span className={styles.took}>
          <span className="unseen">{t.sorts.duration} </span>
          <Elapsed start={row.started_at} end={row.last_at ?? row.started_at} />
        </span>
      </div>
      <Number name={t.heads.turns} value={f.count(row.turns)} className={styles.turns} />
      <Number name={t.heads.tools} value={f.count(row.tools)} className={styles.tools} />
      <Number
        name={t.heads.errors}
        value={f.count(row.errors)}
        className={`${styles.errors} ${row.errors > 0 ? styles.bad : styles.none}`}
      />
      <Changes outcomes={row.outcomes} />
      <span className={styles.tokens}>
        <span className="unseen">{t.sorts.tokens} </span>
        <Tokens bill={row.bill} />
      </span>
      <span className={styles.cost}>
        <span className="unseen">{t.sorts.cost} </span>
        <Cost bill={row.bill} />
      </span>
    </article>
  );
});

/** So many labels and scores fit beside the directory. */
const SHOWN_MARKS = 2;

/** Labels and scores, and how many notes there are; the hint has all of them. */
function Marks({ row }: { row: SessionRow }) {
  const t = useText(text);
  const { labels, scores, notes } = row.marks;
  const words = [...(row.demo ? [t.demo] : []), ...labels, ...Object.entries(scores).map(([name, value]) => `${name} ${String(value)}`)];
  if (notes === 0 && words.length === 0) return null;
  const noted = notes > 0 ? [t.noteCount(notes)] : [];
  return (
    <span className={styles.marks} title={[...words, ...noted].map(visible).join("\n")}>
      {words.slice(0, SHOWN_MARKS).map((word) => (
        <span key={word} className={styles.label}>
          <Text line>{word}</Text>
        </span>
      ))}
      {words.length > SHOWN_MARKS && <span>{t.models(words.length - SHOWN_MARKS)}</span>}
      {noted}
    </span>
  );
}

/**
 * Lines that were added and removed, and commits; a dash where nothing came of it, or it is not known yet. Pull requests
 * and tests are in the title.
 */
function Changes({ outcomes }: { outcomes: OutcomeFigures | null }) {
  const t = useText(text);
  const f = useFormat();
  const name = <span className={styles.name}>{t.heads.changes} </span>;
  const others = outcomes === null ? [] : otherOutcomes(outcomes, t, f);
  if (!outcomes || (outcomes.files === 0 && outcomes.commits === 0)) {
    return (
      <span className={`${styles.changes} ${styles.none}`} title={others.join("\n") || undefined}>
        {name}–
      </span>
    );
  }
  const number = (lines: number | null) => (lines === null ? "?" : f.count(lines));
  const [files, added, removed] = [f.count(outcomes.files), number(outcomes.added), number(outcomes.removed)];
  return (
    <span className={styles.changes} title={[t.changed(files, added, removed), ...others].join("\n")}>
      {name}
      <span>{outcomes.files === 0 ? "–" : `+${added} −${removed}`}</span>
      {outcomes.commits > 0 && <span className={styles.took}>{t.commits(outcomes.commits, f.count(outcomes.commits))}</span>}
    </span>
  );
}

function otherOutcomes(outcomes: OutcomeFigures, t: typeof text.en, f: Format): string[] {
  const { pull_requests: requests, tests_passed: passed, tests_failed: failed } = outcomes;
  return [
    ...(requests > 0 ? [t.pullRequests(f.count(requests))] : []),
    ...(passed === null ? [] : [t.testsRun(f.count(passed), f.count(failed ?? 0))]),
  ];
}

function Models({ row }: { row: SessionRow }) {
  const t = useText(text);
  const shown = row.model ?? row.models[0];
  const others = row.models.filter((model) => model !== shown).length;
  if (!shown) return <span className={styles.model}>{t.noModel}</span>;
  return (
    <span className={styles.model} title={visible(row.models.join("\n") || shown)}>
      <bdi dir="auto">{visible(modelName(shown))}</bdi>
      {others > 0 && ` ${t.models(others)}`}
    </span>
  );
}

function Number({ name, value, className }: { name: string; value: string; className?: string }) {
  return (
    <span className={className}>
      <span className={styles.name}>{name} </span>
      {value}
    </span>
  );
}
