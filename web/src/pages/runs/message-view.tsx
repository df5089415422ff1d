/** A prompt or an answer: words and JSON to be read, or the text as it was sent. */
import { useMemo, useState } from "react";

import { Code, Copy, JsonView, Markdown, Segmented } from "../../parts";
import { useText } from "../../text";
import { messageOf } from "./message";
import styles from "./runs.module.css";
import { text as words } from "./text";

interface MessageViewProps {
  title: string;
  text: string | null;
  /** Shown if there is no text. */
  none: string;
  copyHint: string;
  /** Answers of the chat are written for people. */
  markdown?: boolean;
}

export function MessageView({ title, text, none, copyHint, markdown }: MessageViewProps) {
  const t = useText(words).detail;
  const [view, setView] = useState<"tree" | "text">("tree");
  const message = useMemo(() => messageOf(text ?? ""), [text]);
  const structured = message.json !== undefined;
  return (
    <div className={styles.message}>
      <div className={styles.messageHead}>
        <h3>{title}</h3>
        {text && (
          <div>
            {(structured || markdown) && (
              <Segmented
                label={t.view}
                value={view}
                onChange={setView}
                choices={[
                  { value: "tree", label: t.asTree },
                  { value: "text", label: t.asText },
                ]}
              />
            )}
            <Copy text={text} hint={copyHint} />
          </div>
        )}
      </div>
      {!text ? (
        <p className="faint">{none}</p>
      ) : view === "tree" && structured ? (
        <>
          {message.words && <Code text={message.words} label={title} prose bare />}
          <JsonView value={message.json} open={3} />
        </>
      ) : view === "tree" && markdown ? (
        <Markdown text={text} label={title} />
      ) : (
        <Code text={text} label={title} bare />
      )}
    </div>
  );
}
