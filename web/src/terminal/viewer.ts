// One viewer of one terminal: a WebSocket that is opened again until the program has ended.
//
// Offsets count the program's output. What was received is never received again: a new connection goes on
// at the last offset, and a frame that does not fit makes us ask for the whole screen anew.

import { createSubscriber } from "svelte/reactivity";
import { asProblem, Problem } from "../api";
import type { Exit, Rights, TerminalRow, Trouble } from "../words";
import { readOutput, type Author, type KeyPress, type Progress, type Said, type Told } from "./protocol";

/** Where a terminal is shown. Calls come in order, and are to be shown in order. */
export interface Sink {
  /** Forget what was shown: an empty terminal of this size that is fed `vt` is the screen. */
  show(cols: number, rows: number, vt: string): void;
  resize(cols: number, rows: number): void;
  write(data: Uint8Array | string, shown?: () => void): void;
}

/** What a screen shows: a live terminal, or a recording. */
export interface Source {
  attach(sink: Sink): () => void;
}

export type Link =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "retrying"; at: number } // milliseconds since the epoch
  | { state: "ended" }
  | { state: "refused"; problem: Problem };

export interface Lease {
  holder: Author | null;
  yours: boolean;
  waiting: Author | null;
  due: number | null;
}

const NOBODY: Lease = { holder: null, yours: false, waiting: null, due: null };
const FIRST_WAIT = 400;
const LONGEST_WAIT = 8_000;
const ACK_EVERY = 16_000; // bytes; fewer are acknowledged after a pause
const ACK_PAUSE = 80;
const PASTE_LIMIT = 500_000; // characters; a frame may have a million, and JSON escapes some

export class Viewer implements Source {
  link: Link = { state: "connecting" };
  terminal: TerminalRow | null = null;
  rights: Rights = "view";
  lease: Lease = NOBODY;
  title = "";
  cwd = "";
  progress: Progress | null = null;
  bells = 0;
  cols = 80;
  rows = 24;
  exit: Exit | null = null;
  ended = false;
  /** What the server refused last; gone with the next thing that works. */
  trouble: Trouble | null = null;
  /** When output came last, milliseconds since the epoch. */
  heardAt = 0;

  #path: string;
  #follows: boolean;
  #why: () => Promise<unknown>;
  #sink: Sink | null = null;
  #socket: WebSocket | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #ackTimer: ReturnType<typeof setTimeout> | undefined;
  #attempt = 0;
  #number = 0;
  #next: number | null = null; // the offset that the next byte must have; null: a snapshot has to come first
  #shown = 0;
  #acked = 0;
  #closed = false;
  #tell = new Set<() => void>();
  #subscribe = createSubscriber((update) => {
    this.#tell.add(update);
    return () => this.#tell.delete(update);
  });

  /** `why` is asked when a connection is refused: it throws the Problem that a browser does not tell. */
  constructor(path: string, options: { follows?: boolean; why?: () => Promise<unknown> } = {}) {
    this.#path = path;
    this.#follows = options.follows ?? false;
    this.#why = options.why ?? (() => Promise.resolve());
  }

  /** Connects, and shows everything there. The returned function ends it for good. */
  attach(sink: Sink): () => void {
    this.#sink = sink;
    this.#open();
    const again = () => this.retryNow();
    addEventListener("online", again);
    return () => {
      removeEventListener("online", again);
      this.#close();
    };
  }

  /** Makes reading any field of this viewer reactive. */
  get seen(): this {
    this.#subscribe();
    return this;
  }

  get yours(): boolean {
    return this.lease.yours && !this.ended;
  }

  /** Could take the keyboard: the program lives, reads keys, and we are allowed to. */
  get canType(): boolean {
    return !this.ended && this.rights !== "view" && (this.terminal?.typing ?? false);
  }

  take(): void {
    this.#say({ kind: "lease", action: "take" });
  }

  release(): void {
    this.#say({ kind: "lease", action: "release" });
  }

  key(key: KeyPress): void {
    this.#say({ kind: "key", key });
  }

  text(text: string): void {
    if (text) this.#say({ kind: "text", text });
  }

  paste(text: string): void {
    if (text.length > PASTE_LIMIT) return this.#refuse(`${text.length.toLocaleString()} characters are too many to paste`);
    if (text) this.#say({ kind: "paste", text });
  }

  /** Bytes as they are, each a character of `binary`. */
  raw(binary: string): void {
    this.#say({ kind: "raw", data: btoa(binary) });
  }

  resize(cols: number, rows: number): void {
    this.#say({ kind: "resize", cols, rows });
  }

  /** Does not wait any longer. Nothing happens where a connection is open. */
  retryNow(): void {
    if (this.link.state !== "retrying") return;
    clearTimeout(this.#timer);
    this.#open();
  }

  /** Tells again why something was refused, or that nothing is any more. */
  dismiss(): void {
    this.trouble = null;
    this.#changed();
  }

  // -- the connection

  #open(): void {
    if (this.#closed) return;
    this.link = { state: "connecting" };
    const address = new URL(this.#path, location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    address.hash = "";
    address.searchParams.set("viewer", viewerId());
    if (this.#next !== null && !this.#follows) address.searchParams.set("offset", String(this.#next));
    const socket = new WebSocket(address);
    let greeted = false;
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => {
      if (socket !== this.#socket) return;
      greeted = true;
      if (typeof data === "string") this.#hear(JSON.parse(data) as Told);
      else this.#output(data as ArrayBuffer);
    };
    socket.onclose = () => {
      if (socket === this.#socket) void this.#lost(greeted);
    };
    this.#socket = socket;
    this.#changed();
  }

  async #lost(greeted: boolean): Promise<void> {
    this.#socket = null;
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    if (this.#closed) return;
    if (this.ended && !this.#follows) return this.#be({ state: "ended" });
    if (!greeted) {
      try {
        await this.#why();
      } catch (thrown) {
        const problem = asProblem(thrown);
        if (problem.status >= 400 && problem.status < 500 && !this.#closed) return this.#be({ state: "refused", problem });
      }
    }
    if (!this.#closed) this.#later();
  }

  #later(): void {
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.#attempt++) * (0.8 + Math.random() * 0.4);
    this.#be({ state: "retrying", at: Date.now() + wait });
    this.#timer = setTimeout(() => this.#open(), wait);
  }

  #close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#ackTimer);
    this.#socket?.close(1000);
    this.#socket = null;
    this.#sink = null;
  }

  #be(link: Link): void {
    this.link = link;
    this.#changed();
  }

  // -- what is heard

  #hear(told: Told): void {
    switch (told.kind) {
      case "hello":
        return this.#greet(told);
      case "snapshot":
        return this.#show(told);
      case "resize":
        [this.cols, this.rows] = [told.cols, told.rows];
        this.#sink?.resize(told.cols, told.rows);
        break;
      case "facts":
        this.#learn(told);
        break;
      case "lease":
        this.lease = { holder: told.holder, yours: told.yours, waiting: told.waiting ?? null, due: told.due ?? null };
        this.trouble = null;
        break;
      case "exit":
        [this.ended, this.exit] = [true, told.exit];
        this.lease = NOBODY;
        if (!this.#follows) this.link = { state: "ended" };
        break;
      case "error":
        this.trouble = told.problem;
    }
    this.#changed();
  }

  #greet(hello: Told & { kind: "hello" }): void {
    this.#attempt = 0;
    this.link = { state: "live" };
    this.terminal = hello.terminal;
    this.rights = hello.rights;
    this.ended = hello.terminal?.state === "ended";
    this.exit = hello.terminal?.exit ?? null;
    this.trouble = null;
    this.lease = NOBODY;
    if (!hello.resumed) this.#next = null;
    this.#changed();
  }

  #show(shown: Told & { kind: "snapshot" }): void {
    [this.cols, this.rows] = [shown.cols, shown.rows];
    [this.title, this.cwd, this.progress] = [shown.title ?? "", shown.cwd ?? "", shown.progress ?? null];
    this.#next = this.#shown = this.#acked = shown.offset;
    this.#sink?.show(shown.cols, shown.rows, shown.vt);
    this.#changed();
  }

  #learn(facts: Told & { kind: "facts" }): void {
    if (typeof facts.title === "string") this.title = facts.title;
    if (typeof facts.cwd === "string") this.cwd = facts.cwd;
    if (facts.progress) this.progress = facts.progress === "none" ? null : facts.progress;
    this.bells += facts.bells ?? 0;
  }

  #output(frame: ArrayBuffer): void {
    const { offset, data } = readOutput(frame);
    if (this.#next === null) return; // a snapshot that was asked for is under way
    if (offset !== this.#next) {
      this.#next = null;
      return this.#say({ kind: "refresh" });
    }
    const end = (this.#next = offset + data.length);
    this.heardAt = Date.now();
    this.#sink?.write(data, () => this.#parsed(end));
  }

  /** Acknowledges what is on the screen: the server sends only so much ahead of that. */
  #parsed(end: number): void {
    this.#shown = Math.max(this.#shown, end);
    if (this.#shown - this.#acked >= ACK_EVERY) this.#ack();
    else this.#ackTimer ??= setTimeout(() => this.#ack(), ACK_PAUSE);
  }

  #ack(): void {
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    if (this.#shown <= this.#acked || this.#next === null) return;
    this.#acked = this.#shown;
    this.#say({ kind: "ack", offset: this.#acked });
  }

  // -- what is said

  #say(message: Said): void {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#socket.send(JSON.stringify({ n: ++this.#number, ...message }));
  }

  #refuse(message: string): void {
    this.trouble = { kind: "bad_request", message, hint: "Write it to a file instead" };
    this.#changed();
  }

  #changed(): void {
    for (const update of this.#tell) update();
  }
}

/** A viewer of this terminal. */
export function viewTerminal(id: string, why?: () => Promise<unknown>): Viewer {
  return new Viewer(`/api/terminals/${encodeURIComponent(id)}/ws`, { why });
}

/** A viewer of whatever is the session's primary terminal. */
export function followSession(id: string, why?: () => Promise<unknown>): Viewer {
  return new Viewer(`/api/sessions/${encodeURIComponent(id)}/terminal/ws`, { follows: true, why });
}

/** Tells two windows of one person apart, and one window from itself after a reload: not. */
function viewerId(): string {
  const kept = sessionStorage.getItem("ostler-viewer");
  if (kept !== null && /^[A-Za-z0-9]{8,40}$/.test(kept)) return kept;
  const made = Array.from(crypto.getRandomValues(new Uint8Array(10)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  sessionStorage.setItem("ostler-viewer", made);
  return made;
}
