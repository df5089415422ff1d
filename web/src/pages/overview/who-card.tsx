/** Who works on what now, in place of the sessions that work, where sessions have a person or a machine. */
import { Link } from "wouter";

import { Section } from "../../parts";
import { useText } from "../../text";
import { nowByPerson } from "../team/now";
import { text } from "../team/text";
import { Who } from "../team/who";
import type { Now } from "./now";

/** So many persons, and of each so many sessions, fit beside the other cards. */
const PERSONS = 6;
const SESSIONS = 2;

export function WhoCard({ now }: { now: Pick<Now, "working" | "waiting"> }) {
  const t = useText(text);
  return (
    <Section title={t.now} actions={<Link href="/team">{t.toTeam}</Link>}>
      <Who persons={nowByPerson([...now.working, ...now.waiting])} mostPersons={PERSONS} mostSessions={SESSIONS} />
    </Section>
  );
}
