/** That applications cannot be run, for pages that mostly can do without the words of it. */
import { Suspense, lazy } from "react";

import { ProblemError } from "../../api/client";
import { Loading } from "../../parts";

const Unavailable = lazy(() => import("./unavailable").then((found) => ({ default: found.Unavailable })));

/** Whether the server answered that the run half is not available. */
export function isAway(error: unknown): boolean {
  return error instanceof ProblemError && error.status === 503;
}

export function Away({ error }: { error: unknown }) {
  return (
    <Suspense fallback={<Loading lines={4} />}>
      <Unavailable error={error} />
    </Suspense>
  );
}
