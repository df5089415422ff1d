/** The turns of both sessions by number: prompt, figures, and a link to each. */
import { useMemo, useState } from "react";
import { Link } from "wouter";

import type { Comparison, TurnFigures } from "../../api/shapes";
import { useFormat } from "../../format";
import { Button, Section, Text } from "../../parts";
import { useText } from "../../text";
import { address } from "../../url";
import { TextsContext, useTextCache, useTexts, useWanted } from "../session/data/use-texts";
import { oneLine } from "../session/model/call-arguments";
import styles from "./compare.module.css";
import { text } from "./text";

/** Turns that are shown at first. */
const FIRST = 30;
/** Characters of a prompt. */
const LABEL = 300;

export function TurnList({ found }: { found: Comparison }) {
  const t = useText(text);
  const f = useFormat();
  const [all, setAll] = useState(false);
  const turns = useMemo(() => (all ? found.turns : found.turns.slice(0, FIRST)), [found, all]);
  const a = useTextCache(found.a.key, LABEL);
  const b = useTextCache(found.b.key, LABEL);
  useWanted(a, useMemo(() => turns.flatMap((turn) => turn.a?.span_id ?? []), [turns]));
  useWanted(b, useMemo(() => turns.flatMap((turn) => turn.b?.span_id ?? []), [turns]));
  if (turns.length === 0) return null;
  return (
    <Section open title={t.turns}>
      <table className={styles.turns} aria-label={t.turns}>
        <thead>
          <tr>
            <th scope="col">{t.turn}</th>
            <th scope="col">A</th>
            <th scope="col">B</th>
          </tr>
        </thead>
        <tbody>
          {turns.map((turn) => (
            <tr key={turn.number}>
              <th scope="row">{f.count(turn.number)}</th>
              <TextsContext value={a}>
                <Turn letter="A" session={found.a.key} turn={turn.a} />
              </TextsContext>
              <TextsContext value={b}>
                <Turn letter="B" session={found.b.key} turn={turn.b} />
              </TextsContext>
            </tr>
          ))}
        </tbody>
      </table>
      {turns.length < found.turns.length && (
        <p className={styles.allTurns}>
          <Button onClick={() => setAll(true)}>{t.allTurns(f.count(found.turns.length))}</Button>
        </p>
      )}
    </Section>
  );
}

interface TurnProps {
  letter: "A" | "B";
  session: string;
  turn: TurnFigures | null;
}

function Turn({ letter, session, turn }: TurnProps) {
  const t = useText(text);
  const f = useFormat();
  const pieces = useTexts(turn?.span_id ?? "");
  if (!turn) {
    return (
      <td className="faint" data-letter={letter}>
        {t.noTurn}
      </td>
    );
  }
  const prompt = oneLine(pieces?.find((piece) => piece.kind === "prompt")?.text ?? "");
  return (
    <td data-letter={letter}>
      <Link href={address(`/sessions/${session}`, { span: turn.span_id })} className={styles.prompt}>
        <Text line none={pieces ? t.turn : "…"}>
          {prompt}
        </Text>
      </Link>
      <span className={styles.turnFigures}>
        {t.turnFigures(f.duration(turn.duration_ms), f.count(turn.tools), f.tokens(turn.tokens))}
        {" · "}
        {f.cost(turn)}
        {turn.failed > 0 && <span className={styles.failed}> · {t.failures(f.count(turn.failed))}</span>}
      </span>
    </td>
  );
}
