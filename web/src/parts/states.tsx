/** Loading, error and empty states. */
import type { ReactNode } from "react";
import { useEffect, useState } from "react";

import { ProblemError, UnreachableError } from "../api/client";
import { useText } from "../text";
import { Button } from "./button";
import type { IconName } from "./icon";
import { Icon } from "./icon";
import styles from "./states.module.css";
import { Text } from "./text-view";
import { text } from "./words";

/** True after this many milliseconds, so that fast answers do not flicker. */
export function useLater(ms = 150): boolean {
  const [passed, setPassed] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setPassed(true), ms);
    return () => window.clearTimeout(timer);
  }, [ms]);
  return passed;
}

/** Placeholder lines while content loads. */
export function Loading({ lines = 4 }: { lines?: number }) {
  const t = useText(text);
  const late = useLater();
  return (
    <div className={styles.loading} role="status" data-late={late || undefined}>
      <span className="unseen">{late ? t.loading : ""}</span>
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} className={styles.bar} aria-hidden="true" style={{ width: `${90 - ((line * 37) % 50)}%` }} />
      ))}
    </div>
  );
}

interface FailedProps {
  error: unknown;
  retry?: () => void;
  title?: string;
}

/** What went wrong, in the server's words, and another try. */
export function Failed({ error, retry, title }: FailedProps) {
  const t = useText(text);
  const detail = error instanceof UnreachableError ? t.unreachable : sentence(error);
  return (
    <div className={styles.failed} role="alert">
      <Icon name="warn" size={20} />
      <div>
        <strong>{title ?? t.failed}</strong>
        <p>
          <Text>{detail}</Text>
        </p>
        {retry && (
          <Button icon="refresh" onClick={retry}>
            {t.retry}
          </Button>
        )}
      </div>
    </div>
  );
}

/** The message of an error for the user. */
export function sentence(error: unknown): string {
  if (error instanceof ProblemError) return error.detail;
  return error instanceof Error ? error.message : String(error);
}

interface EmptyProps {
  title: string;
  icon?: IconName;
  /** What to do about it. */
  children?: ReactNode;
}

export function Empty({ title, icon, children }: EmptyProps) {
  return (
    <div className={styles.empty}>
      {icon && <Icon name={icon} size={28} />}
      <strong>{title}</strong>
      {children}
    </div>
  );
}

/** The part of a query that is used here. */
interface Asked<T> {
  data: T | undefined;
  error: Error | null;
  refetch: () => unknown;
}

interface LoadedProps<T> {
  query: Asked<T>;
  lines?: number;
  children: (data: T) => ReactNode;
}

/** Why there is no answer, also while it is asked for again: what polls would otherwise flicker. */
export function useSteadyError({ data, error }: Pick<Asked<unknown>, "data" | "error">): Error | null {
  const [last, setLast] = useState<Error | null>(null);
  if (data !== undefined && last !== null) setLast(null);
  if (data === undefined && error !== null && error !== last) setLast(error);
  return data === undefined ? (error ?? last) : error;
}

/** The answer of a query, or its loading or failed state; an old answer stays while a new one fails. */
export function Loaded<T>({ query, lines, children }: LoadedProps<T>) {
  const error = useSteadyError(query);
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (error) return <Failed error={error} retry={() => void query.refetch()} />;
  return <Loading lines={lines} />;
}
