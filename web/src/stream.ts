// Server-sent events over fetch: unlike EventSource it tells why it failed, and when it will try again.

import { problem } from "./api";

export interface StreamEvent {
  kind: string;
  id: string;
  data: string;
}

export type Link = { state: "connecting" } | { state: "connected" } | { state: "retrying"; at: number };

export interface StreamOptions {
  /** The address to ask, each time anew: it may hold the place to go on from. */
  path: () => string;
  event: (event: StreamEvent) => void;
  link?: (link: Link) => void;
  /** A connection begins: what was told before may be told again. */
  begin?: () => void;
  /** Not worth a retry (a status from 400 to 499). */
  refused?: (error: unknown) => void;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
const SILENCE = 45_000; // the server sends a comment every 15 s at the latest

/** One stream that is opened again and again until it is closed. */
export class Stream {
  #stop = new AbortController();
  #attempt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private options: StreamOptions) {
    void this.#read();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#stop.abort();
  }

  /** Does not wait any longer. Nothing happens where a connection is open. */
  retryNow(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    void this.#read();
  }

  async #read(): Promise<void> {
    this.#timer = undefined;
    const stop = this.#stop;
    if (stop.signal.aborted) return;
    this.options.link?.({ state: "connecting" });
    const quiet = new AbortController();
    let watch = setTimeout(() => quiet.abort(), SILENCE);
    try {
      const answer = await fetch(this.options.path(), {
        headers: { Accept: "text/event-stream" },
        credentials: "same-origin",
        cache: "no-store",
        signal: AbortSignal.any([stop.signal, quiet.signal]),
      });
      if (!answer.ok || !answer.body) return this.#fail(await problem(answer), answer.status);
      this.options.begin?.();
      this.options.link?.({ state: "connected" });
      this.#attempt = 0;
      for await (const event of events(answer.body, () => {
        clearTimeout(watch);
        watch = setTimeout(() => quiet.abort(), SILENCE);
      })) {
        if (stop.signal.aborted) return;
        this.options.event(event);
      }
    } catch {
      // gone: tried again below
    } finally {
      clearTimeout(watch);
    }
    if (!stop.signal.aborted) this.#later();
  }

  #fail(error: unknown, status: number): void {
    if (this.#stop.signal.aborted) return;
    if (status >= 400 && status < 500 && status !== 429) this.options.refused?.(error);
    else this.#later();
  }

  #later(): void {
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.#attempt++) * (0.8 + Math.random() * 0.4);
    this.options.link?.({ state: "retrying", at: Date.now() + wait });
    this.#timer = setTimeout(() => void this.#read(), wait);
  }
}

async function* events(body: ReadableStream<Uint8Array<ArrayBuffer>>, heard: () => void): AsyncGenerator<StreamEvent> {
  let rest = "";
  let event: StreamEvent = { kind: "message", id: "", data: "" };
  const reader = body.pipeThrough(new TextDecoderStream()).getReader(); // Safari cannot iterate over a stream
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    heard();
    const chunk = read.value;
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line !== "") {
        take(event, line);
        continue;
      }
      if (event.data !== "") yield event;
      event = { kind: "message", id: "", data: "" };
    }
  }
}

function take(event: StreamEvent, line: string): void {
  const colon = line.indexOf(":");
  if (colon === 0) return; // a comment: the server's heartbeat
  const field = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (field === "event") event.kind = value;
  else if (field === "id") event.id = value;
  else if (field === "data") event.data = event.data === "" ? value : `${event.data}\n${value}`;
}
