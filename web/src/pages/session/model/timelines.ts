/** Made-up timelines for tests: sessions of any size, whole or as the pieces in which they arrive. */
import type { Timeline } from "../../../api/shapes";

export interface MadeSpan {
  id: string;
  parent?: string | null;
  kind?: "turn" | "step" | "tool" | "span";
  name?: string;
  /** Milliseconds. */
  start: number;
  end?: number | null;
  status?: Timeline["status"][number];
  stream?: string;
  turn?: number;
  input?: number | null;
  cached?: number | null;
  output?: number | null;
  cost?: number | null;
  currency?: string | null;
  counted?: boolean;
}

export function timeline(spans: readonly MadeSpan[], cursor = 1, complete = true): Timeline {
  const streams = [...new Set(spans.map((span) => span.stream ?? ""))];
  return {
    session: "0",
    cursor,
    complete,
    next: null,
    streams,
    span_id: spans.map((span) => span.id),
    parent_id: spans.map((span) => span.parent ?? null),
    kind: spans.map((span) => span.kind ?? "turn"),
    name: spans.map((span) => span.name ?? "invoke_agent x"),
    start: spans.map((span) => span.start * 1000),
    end: spans.map((span) => (span.end === undefined ? span.start * 1000 + 1000 : span.end === null ? null : span.end * 1000)),
    status: spans.map((span) => span.status ?? "ok"),
    model: spans.map((span) => (span.kind === "step" ? "m" : null)),
    stream: spans.map((span) => streams.indexOf(span.stream ?? "")),
    turn: spans.map((span) => span.turn ?? 1),
    step: spans.map(() => 1),
    input: spans.map((span) => span.input ?? null),
    cached: spans.map((span) => span.cached ?? null),
    output: spans.map((span) => span.output ?? null),
    cost: spans.map((span) => span.cost ?? null),
    currency: spans.map((span) => span.currency ?? null),
    counted: spans.map((span) => span.counted ?? true),
    estimated: spans.map(() => false),
  };
}

/** Numbers from 0 to 1 that are the same in every run. */
export function randoms(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** A realistic session with this many spans: turns of steps with tools, some with subagents. */
export function session(count: number, seed = 1): MadeSpan[] {
  const random = randoms(seed);
  const found: MadeSpan[] = [];
  let clock = 1_000_000;
  const add = (span: Omit<MadeSpan, "id" | "start">): string => {
    const id = found.length.toString(16).padStart(16, "0");
    clock += 1 + Math.floor(random() * 500);
    found.push({ id, start: clock, end: clock + Math.floor(random() * 4000), ...span });
    return id;
  };
  const work = (parent: string | null, stream: string, depth: number) => {
    const turn = add({ parent, kind: "turn", stream });
    const steps = 1 + Math.floor(random() * 8);
    for (let step = 0; step < steps && found.length < count; step += 1) {
      const call = add({ parent: turn, kind: "step", name: "chat m", stream, ...spent(random) });
      const tools = Math.floor(random() * 4);
      for (let tool = 0; tool < tools && found.length < count; tool += 1) {
        const name = `execute_tool ${["Bash", "Read", "Edit"][Math.floor(random() * 3)]}`;
        const id = add({ parent: call, kind: "tool", name, stream, status: random() < 0.05 ? "error" : "ok" });
        if (depth < 2 && random() < 0.02) work(id, `${stream}/${id}`, depth + 1);
      }
    }
  };
  while (found.length < count) {
    clock += Math.floor(random() * 120_000);
    work(null, "", 0);
  }
  return found.slice(0, count);
}

function spent(random: () => number) {
  const input = Math.floor(random() * 50_000);
  const priced = random() < 0.9;
  const cost = priced ? input / 1e6 : null;
  return { input, cached: Math.floor(input / 2), output: Math.floor(random() * 900), cost, currency: priced ? "USD" : null };
}
