/**
 * The stream of what changes: one connection for the page, reconnected with growing pauses, never missing anything.
 *
 * After a loss we open a new EventSource with `?after=` the last cursor instead of leaving it to the browser: its own
 * reconnecting has no growing pauses, gives up for good at the first 503, and cannot change the session it asks for.
 */
import { Store } from "../store";
import { address } from "../url";
import { API } from "./client";
import type { LiveHello, LiveNotices, LiveReset, LiveSessions, LiveTexts, Timeline } from "./shapes";

/** `paused`: the page is hidden, and its connection is left to others. */
export type LiveState = "connecting" | "connected" | "reconnecting" | "offline" | "paused";

export interface LiveListener {
  sessions?: (news: LiveSessions) => void;
  timeline?: (news: Timeline) => void;
  /** The texts of the spans in the preceding timeline event. */
  texts?: (news: LiveTexts) => void;
  /** Notifications of rules. */
  notices?: (news: LiveNotices) => void;
  /** Too much has changed: load everything again. */
  reset?: (news: LiveReset) => void;
}

/** The part of EventSource that is used. */
export interface Source {
  addEventListener(name: string, listener: (event: MessageEvent<string>) => void): void;
  close(): void;
}

/** The environment of the stream; tests replace it. */
export interface Surroundings {
  open(url: string): Source;
  /** Runs it later; the answer takes it back. */
  later(ms: number, run: () => void): () => void;
  /** From 0 to 1. */
  random(): number;
}

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 5000;
/** After this many consecutive failures the user is notified. */
const OFFLINE_AFTER = 3;
/** A connection without hello for this long counts as lost. */
const PATIENCE = 10_000;
/** How long a change of the watched session waits for another one. */
const SETTLING = 20;

/** The delay after this many failures: doubled each time, with jitter so that pages do not reconnect all at once. */
export function pause(failures: number, random: number): number {
  const longest = Math.min(FIRST_PAUSE * 2 ** Math.max(failures - 1, 0), LONGEST_PAUSE);
  return Math.round(longest * (0.5 + random / 2));
}

export class LiveStream {
  readonly state = new Store<LiveState>("connecting");
  /** The version of the server in the last hello event. */
  readonly version = new Store<string | null>(null);
  private readonly listeners = new Set<LiveListener>();
  private source: Source | null = null;
  private cancel: () => void = () => {};
  private unsettle: () => void = () => {};
  private cursor: number | null = null;
  /** The store that the cursor belongs to, as the server names it: a new store counts from the start. */
  private epoch = "";
  /** The last notice that is known: those that come while the connection is lost follow. */
  private notice: number | null = null;
  private session: string | null = null;
  private failures = 0;

  constructor(private readonly around: Surroundings) {}

  /** Begins, or begins again at once instead of waiting. */
  readonly start = (): void => {
    this.drop();
    if (this.state.value !== "offline") this.state.set(this.failures ? "reconnecting" : "connecting");
    const source = this.around.open(
      address(`${API}/live`, { session: this.session, after: this.mark(), notices: this.notice }),
    );
    this.source = source;
    this.cancel = this.around.later(PATIENCE, () => this.lost(source));
    source.addEventListener("error", () => this.lost(source));
    this.hear<LiveHello>(source, "hello", (hello) => this.greeted(hello));
    this.hear<LiveSessions>(source, "sessions", (news) => this.told(news, (listener) => listener.sessions?.(news)));
    this.hear<Timeline>(source, "timeline", (news) => this.told(news, (listener) => listener.timeline?.(news)));
    this.hear<LiveTexts>(source, "texts", (news) => this.told(news, (listener) => listener.texts?.(news)));
    this.hear<LiveNotices>(source, "notices", (news) => this.noticed(news));
    this.hear<LiveReset>(source, "reset", (news) => this.begunAnew(news));
  };

  /** Closes the connection: browsers allow six per server, and each open page uses one. */
  readonly stop = (): void => {
    this.drop();
    this.state.set("paused");
  };

  readonly listen = (listener: LiveListener): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Also subscribes to the spans of this session, from the cursor of the loaded timeline on. */
  watch(session: string | null, after?: number): void {
    if (session === this.session) return;
    this.session = session;
    if (after !== undefined) this.cursor = Math.min(this.cursor ?? after, after);
    this.unsettle();
    // A page that replaces another unsubscribes first: one new connection is enough for both.
    this.unsettle = this.around.later(SETTLING, () => {
      if (this.source !== null) this.start();
    });
  }

  /** Up to where everything is known. */
  private mark(): string | null {
    if (this.cursor === null) return null;
    return this.epoch ? `${this.cursor}-${this.epoch}` : String(this.cursor);
  }

  /** The connection is not needed any more or is replaced. */
  private drop(): void {
    this.cancel();
    this.source?.close();
    this.source = null;
  }

  private hear<T>(source: Source, name: string, take: (news: T) => void): void {
    source.addEventListener(name, (event) => {
      if (source !== this.source) return;
      this.epoch = event.lastEventId?.split("-")[1] ?? this.epoch;
      take(JSON.parse(event.data) as T);
    });
  }

  private greeted(hello: LiveHello): void {
    this.cancel();
    this.failures = 0;
    this.version.set(hello.version);
    this.state.set("connected");
    // Events between our cursor and the server's are still to come, so hello does not advance our cursor.
    this.cursor ??= hello.cursor;
    // Missed notices follow; a number that the server has not reached belongs to another store.
    this.notice = Math.min(this.notice ?? hello.notice, hello.notice);
    // A cursor that the server has not reached belongs to another store: it was created again.
    if (hello.cursor < this.cursor) this.begunAnew({ cursor: hello.cursor });
  }

  private begunAnew(news: LiveReset): void {
    this.cursor = news.cursor;
    for (const listener of this.listeners) listener.reset?.(news);
  }

  private noticed(news: LiveNotices): void {
    this.notice = news.notice;
    for (const listener of this.listeners) listener.notices?.(news);
  }

  private told(news: { cursor: number }, say: (listener: LiveListener) => void): void {
    this.cursor = Math.max(this.cursor ?? 0, news.cursor);
    for (const listener of this.listeners) say(listener);
  }

  private lost(source: Source): void {
    if (source !== this.source) return;
    this.drop();
    this.failures += 1;
    this.state.set(this.failures >= OFFLINE_AFTER ? "offline" : "reconnecting");
    this.cancel = this.around.later(pause(this.failures, this.around.random()), this.start);
  }
}
