/** Markdown of agents; its reader is loaded when the first one is shown, the plain text is there until then. */
import { Suspense, lazy, useState } from "react";

import { useFormat } from "../format";
import { useText } from "../text";
import { Boundary } from "./boundary";
import { Button } from "./button";
import { Code } from "./code";
import { beginning, visible } from "./text";
import { text as words } from "./words";

const Rendered = lazy(() => import("./markdown-rendered"));

/** Longer texts are shown in parts: parsing Markdown is slow. */
const MOST = 30_000;

interface MarkdownProps {
  text: string;
  label: string;
  /** How long the whole text is, where `text` is only its beginning. */
  total?: number;
  onMore?: () => void;
  busy?: boolean;
}

export function Markdown({ text, label, total, onMore, busy }: MarkdownProps) {
  const t = useText(words);
  const f = useFormat();
  const [shown, setShown] = useState(MOST);
  const here = beginning(text, shown);
  const all = Math.max(total ?? 0, text.length);
  const plain = <Code text={here} label={label} prose bare />;
  const more = () => {
    setShown(shown * 2);
    if (shown * 2 > text.length) onMore?.();
  };
  return (
    <div>
      <Boundary until={here} instead={() => plain}>
        <Suspense fallback={plain}>
          <Rendered text={visible(here)} />
        </Suspense>
      </Boundary>
      {(here.length < text.length || (all > text.length && onMore)) && (
        <Button small tone="quiet" busy={busy} onClick={more}>
          {t.moreChars(f.count(here.length), f.count(all))}
        </Button>
      )}
    </div>
  );
}
