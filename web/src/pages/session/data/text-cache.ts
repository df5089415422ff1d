/** A cache of the texts of visible spans: requested in batches, evicted when not needed, refreshed when they change. */
import type { TextPiece, Texts } from "../../../api/shapes";

/** Requests the texts of some spans. */
export type Load = (ids: readonly string[]) => Promise<Texts>;
/** Runs something later. */
export type Later = (ms: number, run: () => void) => void;

/** Spans per request; more would delay the first ones. */
const BATCH = 40;
/** Questions under way at the same time. */
const AT_ONCE = 2;
/** The number of spans whose texts are cached. */
const MOST = 3000;
/** Spans that are scrolled past within this time are not requested. */
const SETTLING = 30;
const LONGEST_PAUSE = 15_000;

const NOTHING: readonly TextPiece[] = [];

export class TextCache {
  private readonly known = new Map<string, readonly TextPiece[]>();
  private readonly stale = new Set<string>();
  private readonly loading = new Set<string>();
  private readonly listeners = new Map<string, Set<() => void>>();
  private wanted: readonly string[] = [];
  private asking = 0;
  private failures = 0;
  private waiting = false;

  constructor(
    private readonly load: Load,
    private readonly later: Later,
  ) {}

  /** The texts of a span; undefined while they are not here. */
  read(id: string): readonly TextPiece[] | undefined {
    return this.known.get(id);
  }

  subscribe(id: string, listener: () => void): () => void {
    const all = this.listeners.get(id) ?? new Set();
    this.listeners.set(id, all.add(listener));
    return () => {
      all.delete(listener);
      if (all.size === 0 && this.listeners.get(id) === all) this.listeners.delete(id);
    };
  }

  /** Sets the visible spans; the first ones are loaded first. */
  want(ids: readonly string[]): void {
    this.wanted = ids;
    this.soon(SETTLING);
  }

  /** These spans have changed; their previous texts are shown until the new ones are loaded. */
  drop(ids: readonly string[]): void {
    for (const id of ids) if (this.known.has(id) || this.loading.has(id)) this.stale.add(id);
    this.soon(SETTLING);
  }

  /** Texts from the live stream, at least as long as this cache would have requested. */
  put(texts: Texts): void {
    // A pending answer may be older: the texts are requested again after it.
    const ids = Object.keys(texts.spans).filter((id) => !this.loading.has(id));
    for (const id of ids) this.stale.delete(id);
    this.take(ids, texts);
  }

  private soon(ms: number): void {
    if (this.waiting) return;
    this.waiting = true;
    this.later(ms, () => {
      this.waiting = false;
      this.ask();
    });
  }

  private ask(): void {
    while (this.asking < AT_ONCE) {
      const ids = this.wanted.filter((id) => this.needs(id)).slice(0, BATCH);
      if (ids.length === 0) return;
      void this.askFor(ids);
    }
  }

  private needs(id: string): boolean {
    return !this.loading.has(id) && (this.stale.has(id) || !this.known.has(id));
  }

  private async askFor(ids: readonly string[]): Promise<void> {
    this.asking += 1;
    for (const id of ids) {
      this.loading.add(id);
      this.stale.delete(id);
    }
    let pause = 0;
    try {
      this.take(ids, await this.load(ids));
      this.failures = 0;
    } catch {
      // The page shows that the server is unreachable; retries have growing delays.
      this.failures += 1;
      pause = Math.min(500 * 2 ** this.failures, LONGEST_PAUSE);
      for (const id of ids) if (this.known.has(id)) this.stale.add(id);
    }
    for (const id of ids) this.loading.delete(id);
    this.asking -= 1;
    if (pause > 0) this.soon(pause);
    else this.ask();
  }

  private take(ids: readonly string[], texts: Texts): void {
    for (const id of ids) {
      this.known.delete(id);
      this.known.set(id, texts.spans[id] ?? NOTHING);
    }
    this.forget();
    for (const id of ids) for (const listener of this.listeners.get(id) ?? []) listener();
  }

  private forget(): void {
    if (this.known.size <= MOST) return;
    const needed = new Set(this.wanted);
    for (const id of this.known.keys()) {
      if (this.known.size <= MOST) return;
      if (!needed.has(id)) this.known.delete(id);
    }
  }
}
