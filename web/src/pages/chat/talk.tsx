/** The conversation: messages since the page was opened, and the input box. */
import type { ReactNode } from "react";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";

import type { Catalog } from "../../api/shapes";
import { Button, Empty, Page, beginning, visible } from "../../parts";
import { useText } from "../../text";
import { useParams } from "../../url";
import { TraceLink } from "../runs/trace-link";
import styles from "./chat.module.css";
import { Composer } from "./composer";
import { OptionBar, useOptions } from "./options";
import { text } from "./text";
import { TurnView } from "./turn-view";
import type { Turn } from "./turns";
import { useChat } from "./use-chat";

/** Screen readers announce this much of an answer; the rest can be read on request. */
const READ_OUT = 300;

export function Talk({ catalog, notice }: { catalog: Catalog; notice: ReactNode }) {
  const t = useText(text);
  const params = useParams();
  const conversation = params.number("conversation");
  const options = useOptions();
  const { turns, answering, ask, stop, leave } = useChat((number) => params.change({ conversation: number }));
  const [typed, setTyped] = useState("");
  const box = useRef<HTMLTextAreaElement>(null);
  const shown = turns.filter((turn) => turn.conversation === conversation || turn.state === "answering");
  const last = turns.at(-1);
  const onSend = () => {
    if (!options) return;
    ask(typed, { ...options, conversation_id: conversation });
    setTyped("");
  };
  const onStop = () => {
    stop();
    box.current?.focus();
  };
  const onAgain = useCallback((said: string) => {
    setTyped(said);
    box.current?.focus();
  }, []);
  const onFresh = () => {
    leave();
    params.change({ conversation: null }, { push: true });
    box.current?.focus();
  };
  return (
    <Page
      title={t.title}
      note={t.note}
      full
      actions={
        <Button icon="plus" onClick={onFresh} disabled={conversation === null && shown.length === 0}>
          {t.fresh}
        </Button>
      }
    >
      {notice}
      <OptionBar fixed={conversation !== null} />
      <Scroller turns={shown}>
        <Beginning conversation={conversation} turns={shown} catalog={catalog} onExample={onAgain} />
        {shown.length > 0 && (
          <ol role="list" className={styles.turns}>
            {shown.map((turn) => (
              <TurnView key={turn.id} turn={turn} onAgain={onAgain} />
            ))}
          </ol>
        )}
      </Scroller>
      <p role="status" className="unseen">
        {last && <Announced turn={last} />}
      </p>
      <Composer
        typed={typed}
        onType={setTyped}
        answering={answering}
        blocked={options === null || catalog.chat_app === null || catalog.chat_missing.length > 0}
        onSend={onSend}
        onStop={onStop}
        box={box}
      />
    </Page>
  );
}

/** Announces the complete answer once, not each piece. */
function Announced({ turn }: { turn: Turn }) {
  const t = useText(text);
  if (turn.state === "answering") return t.answering;
  if (turn.state === "done") return t.answered(visible(beginning(turn.answer, READ_OUT)));
  if (turn.state === "refused") return visible(turn.refusal?.message ?? "");
  return turn.state === "stopped" ? t.stopped : t.broken;
}

interface BeginningProps {
  conversation: number | null;
  turns: readonly Turn[];
  catalog: Catalog;
  onExample: (example: string) => void;
}

/** The content above the first message. */
function Beginning({ conversation, turns, catalog, onExample }: BeginningProps) {
  const t = useText(text);
  const app = catalog.apps.find((each) => each.app === catalog.chat_app);
  const session = turns.findLast((turn) => turn.session !== null)?.session;
  if (conversation !== null) {
    return (
      <p className={styles.beginning}>
        {turns.length === 0 ? `${t.goesOn(conversation)} ${t.earlier}` : `${t.number(conversation)} · ${t.visitOnly}`}
        {session && (
          <>
            {" "}
            {t.trace}: <TraceLink session={session} open />
          </>
        )}
      </p>
    );
  }
  if (turns.length > 0) return <p className={styles.beginning}>{t.visitOnly}</p>;
  return (
    <Empty icon="chat" title={t.empty}>
      <p>
        {app && t.limit(app.rate_limit, app.rate_seconds)} {t.visitOnly}
      </p>
      <div className={styles.examples}>
        {t.examples.split("\n").map((example) => (
          <Button key={example} small onClick={() => onExample(example)}>
            {example}
          </Button>
        ))}
      </div>
    </Empty>
  );
}

/** Follows the end while it is visible, and stays where the user has scrolled to. */
function Scroller({ turns, children }: { turns: readonly Turn[]; children: ReactNode }) {
  const t = useText(text);
  const place = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  const last = turns.at(-1)?.id;
  useLayoutEffect(() => {
    following.current = true;
  }, [last]);
  useEffect(() => {
    const element = place.current;
    const inside = element?.firstElementChild;
    if (!element || !inside) return undefined;
    // The height changes also when the reader of Markdown has been loaded.
    const growing = new ResizeObserver(() => {
      if (following.current) element.scrollTop = element.scrollHeight;
    });
    growing.observe(inside);
    return () => growing.disconnect();
  }, []);
  return (
    // The focus makes it scrollable by keyboard.
    <div
      ref={place}
      role="region"
      aria-label={t.conversation}
      className={styles.scroller}
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
      tabIndex={0}
      onScroll={(event) => {
        const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
        following.current = scrollHeight - scrollTop - clientHeight < 40;
      }}
    >
      <div className={styles.inside}>{children}</div>
    </div>
  );
}
