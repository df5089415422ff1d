/** What the parts of a session's page share. */
import { createContext, useContext } from "react";

export interface SessionTools {
  /** The session's key. */
  key: string;
  hideThinking: boolean;
  /** The agent is working: open spans continue. */
  live: boolean;
  /** Spans of a program: a turn has its answer, and the model call with that answer repeats it. */
  received: boolean;
  /** Whether the inside of a span is shown: its texts, or the spans in it. */
  isOpen(what: "texts" | "spans", id: string, usually: boolean): boolean;
  toggle(what: "texts" | "spans", id: string, open: boolean): void;
  /** Opens the details of a span. */
  details(id: string): void;
}

export const SessionContext = createContext<SessionTools>({
  key: "",
  hideThinking: false,
  live: false,
  received: false,
  isOpen: (_, __, usually) => usually,
  toggle: () => {},
  details: () => {},
});

export function useSessionTools(): SessionTools {
  return useContext(SessionContext);
}
