/** What changed between two texts; the comparing is loaded when the first one is shown. */
import { Suspense, lazy } from "react";

import { useText } from "../text";
import { Boundary } from "./boundary";
import { Code } from "./code";
import { Failed, Loading } from "./states";
import { text } from "./words";

const Lines = lazy(() => import("./diff-lines"));

interface DiffViewProps {
  before: string;
  after: string;
  /** Whether both texts begin where the file does: else the numbers of their lines are not known. */
  numbered: boolean;
  label: string;
}

/** A diff takes quadratic time in the number of differences: beyond this limit both texts are shown in full. */
const MOST = 400_000;

export function DiffView({ before, after, numbered, label }: DiffViewProps) {
  const t = useText(text);
  if (before.length + after.length > MOST) {
    return (
      <div>
        <p className="faint">{t.diffTooBig}</p>
        <h4>{t.before}</h4>
        <Code text={before} label={`${label}: ${t.before}`} />
        <h4>{t.after}</h4>
        <Code text={after} label={`${label}: ${t.after}`} />
      </div>
    );
  }
  return (
    <Boundary instead={(error, retry) => <Failed error={error} retry={retry} />}>
      <Suspense fallback={<Loading />}>
        <Lines before={before} after={after} numbered={numbered} label={label} />
      </Suspense>
    </Boundary>
  );
}
