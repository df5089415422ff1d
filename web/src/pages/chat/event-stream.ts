/** Server-sent events in the answer to a POST, which a browser's EventSource cannot make. */

export interface StreamEvent {
  name: string;
  data: string;
}

const ENDS = /\r\n|\n|\r/;

/** Takes bytes as they come, cut anywhere, and gives the events that are complete. */
export class EventReader {
  private readonly decoder = new TextDecoder("utf-8");
  private rest = "";
  private name = "";
  private data: string[] = [];

  feed(bytes: Uint8Array): StreamEvent[] {
    this.rest += this.decoder.decode(bytes, { stream: true });
    const found: StreamEvent[] = [];
    for (let end = this.lineEnd(); end; end = this.lineEnd()) {
      const line = this.rest.slice(0, end.start);
      this.rest = this.rest.slice(end.stop);
      const event = this.take(line);
      if (event) found.push(event);
    }
    return found;
  }

  /** Where the first line ends; nowhere as long as a line feed may still follow its carriage return. */
  private lineEnd(): { start: number; stop: number } | null {
    const match = ENDS.exec(this.rest);
    if (!match) return null;
    const stop = match.index + match[0].length;
    return match[0] === "\r" && stop === this.rest.length ? null : { start: match.index, stop };
  }

  private take(line: string): StreamEvent | null {
    if (line === "") return this.complete();
    const colon = line.indexOf(":");
    // A comment: the server's heartbeat.
    if (colon === 0) return null;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.name = value;
    if (field === "data") this.data.push(value);
    return null;
  }

  private complete(): StreamEvent | null {
    const event = this.data.length > 0 ? { name: this.name || "message", data: this.data.join("\n") } : null;
    this.name = "";
    this.data = [];
    return event;
  }
}

/** The events of an answer; stopping to listen ends the connection. */
export async function* eventsOf(response: Response): AsyncGenerator<StreamEvent> {
  const reader = response.body?.getReader();
  if (!reader) return;
  const events = new EventReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* events.feed(value);
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
