/** The spans of a session column by column: thirty thousand of them take a few megabytes and a few milliseconds. */
import type { Timeline } from "../../../api/shapes";
import { grown } from "./growing";
import { SpanOrder } from "./span-order";

export const KINDS = ["turn", "step", "tool", "span"] as const;
/** The stream of calls that no message of the log has, as the store calls it. */
const NOT_IN_LOG = "not in the log";

export const STATUSES = ["open", "ok", "error", "cancelled", "unclosed"] as const;
export type Kind = (typeof KINDS)[number];
export type Status = (typeof STATUSES)[number];

const TOOL_PREFIX = "execute_tool ";
const AGENT_PREFIX = "invoke_agent ";

/** The result of a merge. */
export interface Merged {
  /** New and changed spans. */
  ids: string[];
  /** Rows before this position in reading order have not changed. */
  from: number;
}

function codes<T extends string>(names: readonly T[]): Record<T, number> {
  return Object.fromEntries(names.map((name, code) => [name, code])) as Record<T, number>;
}

const KIND_CODES = codes(KINDS);
const STATUS_CODES = codes(STATUSES);

/** A missing number; typed arrays know no null. */
export const NONE = Number.NaN;

export class SpanTable {
  length = 0;
  /** Of the newest timeline that was merged. */
  cursor = 0;
  readonly ids: string[] = [];
  readonly names: string[] = [];
  readonly models: (string | null)[] = [];
  readonly currencies: (string | null)[] = [];
  /** The main stream is the empty text; the others are subagents. */
  readonly streams: string[] = [];
  /** Milliseconds since 1970; the end of what is open is {@link NONE}. */
  start = new Float64Array(0);
  end = new Float64Array(0);
  kind = new Uint8Array(0);
  status = new Uint8Array(0);
  stream = new Uint16Array(0);
  turn = new Int32Array(0);
  step = new Int32Array(0);
  input = new Float64Array(0);
  cached = new Float64Array(0);
  output = new Float64Array(0);
  cost = new Float64Array(0);
  counted = new Uint8Array(0);
  estimated = new Uint8Array(0);
  readonly parentIds: (string | null)[] = [];
  readonly order = new SpanOrder(this);
  private readonly rows = new Map<string, number>();

  /** The row of a span; -1 if it is not loaded. */
  rowOf(id: string | null): number {
    return (id === null ? undefined : this.rows.get(id)) ?? -1;
  }

  kindOf(row: number): Kind {
    return KINDS[this.kind[row] ?? 0] ?? "turn";
  }

  statusOf(row: number): Status {
    return STATUSES[this.status[row] ?? 0] ?? "ok";
  }

  /** The name of a tool, "" for other spans. */
  toolOf(row: number): string {
    const name = this.names[row] ?? "";
    if (this.kindOf(row) !== "tool") return "";
    return name.startsWith(TOOL_PREFIX) ? name.slice(TOOL_PREFIX.length) : name;
  }

  /** The name that the sender gave a span; "" for turns of recorded agents, which are only numbered. */
  titleOf(row: number): string {
    const name = this.names[row] ?? "";
    if (this.kindOf(row) !== "turn" || this.inner(row)) return name.startsWith(AGENT_PREFIX) ? name.slice(AGENT_PREFIX.length) : name;
    return name.startsWith(AGENT_PREFIX) ? "" : name;
  }

  /** Whether a span is an agent inside a turn; subagents of recorded agents have a separate stream. */
  inner(row: number): boolean {
    return this.kindOf(row) === "turn" && this.parentIds[row] !== null && !this.nested(row);
  }

  /** Whether a span belongs to a subagent. */
  nested(row: number): boolean {
    return this.streams[this.stream[row] ?? 0] !== "";
  }

  /** Whether a span is a model call that no message of the log has. */
  unlogged(row: number): boolean {
    return this.streams[this.stream[row] ?? 0] === NOT_IN_LOG;
  }

  /** When a span ends, or until when it is known to go on. */
  endOf(row: number, now: number): number {
    const end = this.end[row] ?? NONE;
    if (!Number.isNaN(end)) return end;
    const start = this.start[row] ?? 0;
    return this.statusOf(row) === "open" ? Math.max(now, start) : start;
  }

  /** Adds new spans and updates known ones; the cost depends on the number of changes if they are at the end. */
  merge(news: Timeline): Merged {
    this.cursor = Math.max(this.cursor, news.cursor);
    this.reserve(this.length + news.span_id.length);
    const streams = news.streams.map((name) => this.streamOf(name));
    const before = this.length;
    const touched: number[] = [];
    let moved = false;
    news.span_id.forEach((id, at) => {
      const known = this.rows.get(id);
      const row = known ?? this.add(id);
      const parent = news.parent_id[at] ?? null;
      const start = (news.start[at] ?? 0) / 1000;
      if (known !== undefined) {
        moved ||= this.parentIds[row] !== parent || this.start[row] !== start;
        touched.push(row);
      }
      this.parentIds[row] = parent;
      this.start[row] = start;
      this.fill(row, news, at, streams[news.stream[at] ?? 0] ?? 0);
    });
    const from = this.order.grow(before, moved);
    const first = touched.reduce((least, row) => Math.min(least, this.order.position[row] ?? 0), from);
    return { ids: news.span_id, from: first };
  }

  private add(id: string): number {
    const row = this.length;
    this.ids.push(id);
    this.rows.set(id, row);
    this.length += 1;
    return row;
  }

  private fill(row: number, news: Timeline, at: number, stream: number): void {
    const end = news.end[at];
    this.names[row] = news.name[at] ?? "";
    this.models[row] = news.model[at] ?? null;
    this.currencies[row] = news.currency[at] ?? null;
    this.end[row] = typeof end === "number" ? end / 1000 : NONE;
    this.kind[row] = KIND_CODES[news.kind[at] ?? "turn"];
    this.status[row] = STATUS_CODES[news.status[at] ?? "ok"];
    this.stream[row] = stream;
    this.turn[row] = news.turn[at] ?? 0;
    this.step[row] = news.step[at] ?? 0;
    this.input[row] = news.input[at] ?? NONE;
    this.cached[row] = news.cached[at] ?? NONE;
    this.output[row] = news.output[at] ?? NONE;
    this.cost[row] = news.cost[at] ?? NONE;
    this.counted[row] = news.counted[at] ? 1 : 0;
    this.estimated[row] = news.estimated[at] ? 1 : 0;
  }

  private streamOf(name: string): number {
    const known = this.streams.indexOf(name);
    return known >= 0 ? known : this.streams.push(name) - 1;
  }

  private reserve(rows: number): void {
    if (rows <= this.start.length) return;
    const room = Math.max(rows, Math.ceil(this.start.length * 1.5), 64);
    this.start = grown(this.start, Float64Array, room);
    this.end = grown(this.end, Float64Array, room);
    this.kind = grown(this.kind, Uint8Array, room);
    this.status = grown(this.status, Uint8Array, room);
    this.stream = grown(this.stream, Uint16Array, room);
    this.turn = grown(this.turn, Int32Array, room);
    this.step = grown(this.step, Int32Array, room);
    this.input = grown(this.input, Float64Array, room);
    this.cached = grown(this.cached, Float64Array, room);
    this.output = grown(this.output, Float64Array, room);
    this.cost = grown(this.cost, Float64Array, room);
    this.counted = grown(this.counted, Uint8Array, room);
    this.estimated = grown(this.estimated, Uint8Array, room);
  }
}
