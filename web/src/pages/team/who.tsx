/** Persons with the sessions that work for them, or wait for them. */
import { Link } from "wouter";

import type { CurrentSession, PersonNow } from "../../api/shapes";
import { useFormat } from "../../format";
import { Elapsed, StateMark, Text, Time } from "../../parts";
import { useText } from "../../text";
import { address } from "../../url";
import { text } from "./text";
import styles from "./team.module.css";

interface WhoProps {
  persons: PersonNow[];
  mostPersons?: number;
  /** Of each person. */
  mostSessions?: number;
}

export function Who({ persons, mostPersons = Infinity, mostSessions = Infinity }: WhoProps) {
  const t = useText(text);
  const f = useFormat();
  if (persons.length === 0) return <p className="soft">{t.noSessions}</p>;
  const more = persons.length - mostPersons;
  return (
    <>
      <ul role="list" className={styles.persons}>
        {persons.slice(0, mostPersons).map((each) => (
          <Person key={each.person ?? ""} each={each} most={mostSessions} />
        ))}
      </ul>
      {more > 0 && <p className="faint">{t.morePersons(f.count(more))}</p>}
    </>
  );
}

function Person({ each: { person, sessions }, most }: { each: PersonNow; most: number }) {
  const t = useText(text);
  const f = useFormat();
  const more = sessions.length - most;
  const all = address("/sessions", { person: person === null ? [] : [person], state: ["working", "waiting"] });
  return (
    <li className={styles.person}>
      <h3>{person === null ? <span className="soft">{t.noPerson}</span> : <Text line>{person}</Text>}</h3>
      <ul role="list">
        {sessions.slice(0, most).map((session) => (
          <Current key={session.session} session={session} />
        ))}
      </ul>
      {more > 0 && (
        <Link href={all} className={styles.more}>
          {t.moreSessions(f.count(more))}
        </Link>
      )}
    </li>
  );
}

function Current({ session }: { session: CurrentSession }) {
  const t = useText(text);
  const project = session.project?.split(/[\\/]/).findLast(Boolean) ?? null;
  const waits = session.state === "waiting";
  return (
    <li className={styles.current}>
      <StateMark state={session.state} label={t.states[session.state]} bare />
      <Link href={`/sessions/${session.session}`} className={styles.title}>
        <Text line>{session.title ?? t.untitled}</Text>
      </Link>
      <span className={styles.since} title={waits ? t.waitsSince : t.worksSince}>
        {waits ? <Time at={session.since} as="ago" /> : <Elapsed start={session.since} end={null} />}
      </span>
      <Text line className={styles.place} none="">
        {[session.machine, project, session.agent].filter(Boolean).join(" · ")}
      </Text>
    </li>
  );
}
