/** The selected step: each of its calls with prompt and answer. */
import { Link } from "wouter";

import type { ChainStep, StepCall } from "../../api/shapes";
import { useFormat } from "../../format";
import { Section, Text, Time } from "../../parts";
import { useText } from "../../text";
import { roughly } from "./figures";
import { MessageView } from "./message-view";
import styles from "./runs.module.css";
import { CallMark, StepMark, isOver } from "./statuses";
import { text } from "./text";

interface StepDetailProps {
  step: ChainStep;
  estimated: ReadonlySet<number>;
}

export function StepDetail({ step, estimated }: StepDetailProps) {
  const t = useText(text);
  const heading = (
    <span className={styles.heading}>
      <Text>{step.title}</Text>
      <code className="soft">
        <Text>{step.name}</Text>
      </code>
    </span>
  );
  return (
    <Section title={heading} actions={step.calls.length === 0 ? <StepMark step={step} /> : undefined}>
      {step.calls.length === 0 ? (
        <p className="soft">
          {step.status !== "waiting" ? t.stepPage.notRun : step.after.length > 0 ? t.stepPage.notYet : t.stepPage.first}
        </p>
      ) : (
        <div className={styles.stack}>
          {step.calls.map((call, index) => (
            <CallOfStep
              key={call.run_id}
              call={call}
              place={index + 1}
              all={step.calls.length}
              estimated={estimated.has(call.run_id)}
            />
          ))}
        </div>
      )}
    </Section>
  );
}

interface CallOfStepProps {
  call: StepCall;
  place: number;
  all: number;
  estimated: boolean;
}

function CallOfStep({ call, place, all, estimated }: CallOfStepProps) {
  const t = useText(text);
  const f = useFormat();
  return (
    <div className={`${styles.stack} ${styles.call}`}>
      <div className={styles.figures}>
        <CallMark status={call.status} />
        <span>
          {all > 1 && `${t.stepPage.callOf(place, all)} · `}
          <Link href={`/runs/calls/${call.run_id}`}>{t.callNumber(call.run_id)}</Link>
        </span>
        <Time at={call.created_at} as="exact" />
        <span>
          {t.detail.latency} <strong>{f.duration(call.latency_ms)}</strong>
        </span>
        <span title={estimated ? t.estimated : undefined}>
          {t.tokens} <strong>{roughly(f.count(call.tokens_used), estimated)}</strong>
        </span>
        <span>
          {t.attempts} <strong>{f.count(call.attempts)}</strong>
        </span>
        {call.model && (
          <span>
            {t.detail.model}{" "}
            <strong>
              <Text>{call.model}</Text>
            </strong>
          </span>
        )}
      </div>
      {call.error && (
        <p className={styles.error}>
          <Text>{call.error}</Text>
        </p>
      )}
      <div className={styles.messages}>
        <MessageView title={t.detail.prompt} text={call.prompt} none={t.detail.noPrompt} copyHint={t.detail.copyPrompt} />
        <MessageView
          title={t.detail.answer}
          text={call.response}
          none={isOver(call.status) ? t.detail.noAnswer : t.detail.noAnswerYet}
          copyHint={t.detail.copyAnswer}
        />
      </div>
    </div>
  );
}
