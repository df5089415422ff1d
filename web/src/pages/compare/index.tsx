/** Two sessions side by side: figures, a common time axis, tools, models, files and turns. */
import { Link } from "wouter";

import { useGet } from "../../api/queries";
import type { ComparedSession, Comparison } from "../../api/shapes";
import { Button, Empty, Grid, LinkButton, Loaded, Page, PathText, StateMark, Text, Time } from "../../parts";
import { useText } from "../../text";
import { address, useParams } from "../../url";
import styles from "./compare.module.css";
import { FigureTable } from "./figures";
import { FileTable, ModelTable, ToolTable } from "./tables";
import { text } from "./text";
import { TimelineSection } from "./timelines";
import { TurnList } from "./turns";

export default function Compare() {
  const t = useText(text);
  const params = useParams();
  const [a, b] = [params.text("a"), params.text("b")];
  const chosen = a !== "" && b !== "";
  const query = useGet<Comparison>("/compare", { a, b }, { when: chosen, keep: true });
  if (!chosen) {
    return (
      <Page title={t.title}>
        <Empty icon="compare" title={t.choose}>
          <p>{t.chooseNote}</p>
          <LinkButton href={address("/sessions", { compare: [a, b] })}>{t.toSessions}</LinkButton>
        </Empty>
      </Page>
    );
  }
  return (
    <Page
      title={t.title}
      note={t.note}
      actions={
        <Button icon="refresh" onClick={() => params.change({ a: b, b: a }, { push: true })}>
          {t.swap}
        </Button>
      }
    >
      <Loaded query={query} lines={12}>
        {(found) => <Compared found={found} />}
      </Loaded>
    </Page>
  );
}

function Compared({ found }: { found: Comparison }) {
  const t = useText(text);
  return (
    <>
      <div className={styles.heads} role="group" aria-label={t.sessions}>
        <Head letter="A" session={found.a} other={found.b} />
        <Head letter="B" session={found.b} other={found.a} />
      </div>
      <TimelineSection found={found} />
      <Grid min="30rem">
        <FigureTable found={found} />
        <div className={styles.column}>
          <ToolTable tools={found.tools} />
          <ModelTable models={found.models} />
          <FileTable files={found.files} />
        </div>
      </Grid>
      <TurnList found={found} />
    </>
  );
}

interface HeadProps {
  letter: "A" | "B";
  session: ComparedSession;
  other: ComparedSession;
}

function Head({ letter, session, other }: HeadProps) {
  const t = useText(text);
  return (
    <div className={styles.head}>
      <span className={styles.letter} data-letter={letter} aria-hidden="true">
        {letter}
      </span>
      <div className={styles.named}>
        <h2>
          <span className="unseen">{letter}: </span>
          <Link href={`/sessions/${session.key}`}>
            <Text line none={t.untitled}>
              {session.title ?? ""}
            </Text>
          </Link>
        </h2>
        <p className={styles.where}>
          <StateMark state={session.state} />
          <Text>{session.agent}</Text>
          {session.project && <PathText className={styles.project}>{session.project}</PathText>}
          <Time at={session.started_at} as="clock" />
        </p>
      </div>
      <Link href={address("/sessions", { compare: [other.key] })} className={styles.change} aria-label={t.change(letter)} title={t.change(letter)}>
        ⇄
      </Link>
    </div>
  );
}
