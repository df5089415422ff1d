/** Colours program text; until the colouring is loaded, and where it is too long, the text is plain. */
import { Suspense, lazy } from "react";

import { Boundary } from "./boundary";

const Highlighted = lazy(() => import("./highlighted"));

/** Longer texts would take too long. */
const MOST = 30_000;

/** `language`: of `language.ts`; null for plain text. */
export function Highlight({ text, language }: { text: string; language: string | null }) {
  if (language === null || text.length > MOST) return <>{text}</>;
  return (
    <Boundary until={text} instead={() => <>{text}</>}>
      <Suspense fallback={<>{text}</>}>
        <Highlighted text={text} language={language} />
      </Suspense>
    </Boundary>
  );
}
