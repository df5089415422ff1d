/** The calls behind a row: the latest failures and the longest calls, each a link to its span. */
import { useMemo } from "react";
import { Link } from "wouter";

import { useGet } from "../../api/queries";
import type { InsightCalls, InsightSpan } from "../../api/shapes";
import { useFormat } from "../../format";
import { Drawer, Loaded, Text, Time } from "../../parts";
import { useText } from "../../text";
import styles from "./insights.module.css";
import type { Question } from "./question";
import { apiParams, placeOf } from "./question";
import { text } from "./text";

interface CallDrawerProps {
  /** The tool or model; null: closed. */
  name: string | null;
  part: string | null;
  question: Question;
  tools: boolean;
  onClose: () => void;
}

export function CallDrawer(props: CallDrawerProps) {
  const t = useText(text);
  const title = (
    <>
      <Text line>{props.name || (props.tools ? t.none : t.noModel)}</Text>
      {props.part && (
        <span className={styles.of}>
          <Text line>{props.part}</Text>
        </span>
      )}
    </>
  );
  return (
    <Drawer open={props.name !== null} onClose={props.onClose} title={title}>
      {props.name !== null && <Calls {...props} name={props.name} />}
    </Drawer>
  );
}

function Calls({ name, question, tools }: CallDrawerProps & { name: string }) {
  const t = useText(text);
  const asked = useMemo(() => {
    const params = apiParams(question);
    return tools ? { ...params, tool: name, limit: 20 } : { ...params, model: [name], limit: 20 };
  }, [question, name, tools]);
  const query = useGet<InsightCalls>("/insights/calls", asked);
  return (
    <Loaded query={query} lines={10}>
      {(found) => (
        <div className={styles.calls}>
          <CallList title={t.failedCalls} calls={found.failed} none={t.noFailed} failed />
          <CallList title={t.slowCalls} calls={found.slow} none={t.noSlow} />
        </div>
      )}
    </Loaded>
  );
}

interface CallListProps {
  title: string;
  calls: readonly InsightSpan[];
  none: string;
  /** With the errors. */
  failed?: boolean;
}

function CallList({ title, calls, none, failed }: CallListProps) {
  const t = useText(text);
  const f = useFormat();
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      {calls.length === 0 && <p className="faint">{none}</p>}
      <ol className={styles.callList} role="list">
        {calls.map((call) => (
          <li key={`${call.session} ${call.span_id}`}>
            <Link href={placeOf(call)} className={styles.call}>
              <span className={styles.callTitle}>
                <Text line>{call.title ?? call.session_id}</Text>
              </span>
              <span className={styles.callFigure}>{f.duration(call.duration_ms)}</span>
              <span className={styles.callNote}>
                {t.turn(call.turn)} · <Time at={call.at} />
              </span>
              {failed && <span className={styles.error}>{call.error ? <Text line>{call.error}</Text> : t.noReason}</span>}
            </Link>
          </li>
        ))}
      </ol>
    </section>
  );
}
