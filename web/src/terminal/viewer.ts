// One viewer of one terminal: a WebSocket that is opened again until the program has ended.
//
// Offsets count the program's output. What was received is never received again: a new connection goes on
// at the last offset, and a frame that does not fit makes us ask for the whole screen anew.

import { createSubscriber } from "svelte/reactivity";
import { asProblem, loggedOut, Problem } from "../api";
import { readOutput, type AnyTerminalMessage, type AnyViewerMessage, type KeyPress } from "./protocol";
import { whenHidden } from "../lib/visibility";
import { NOBODY, NOTHING, type Seen, type Sink, type Source } from "./seen";

const FIRST_WAIT = 400;
const LONGEST_WAIT = 8_000;
const ACK_EVERY = 16_000; // bytes; fewer are acknowledged after a pause
const ACK_PAUSE = 80;
const LOGGED_OUT = 4401; // the code of a connection whose login is over
const PASTE_LIMIT = 500_000; // characters; a frame may have a million, and JSON escapes some

export class Viewer implements Source {
  /** When output came last, milliseconds since the epoch. */
  receivedAt = 0;

  #path: string;
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
  #screen = 0; // how many snapshots came: what was written before one does not count after it
  #closed = false;
  #asleep = false;
  #takeAgain = false; // the keyboard was ours when we fell asleep
  #now: Seen = NOTHING;
  #tell = new Set<() => void>();
  #subscribe = createSubscriber((update) => {
    this.#tell.add(update);
    return () => this.#tell.delete(update);
  });

  /** `why` is asked when a connection is refused: it throws the Problem that a browser does not tell. */
  constructor(path: string, why: () => Promise<unknown> = () => Promise.resolve()) {
    this.#path = path;
    this.#why = why;
  }

  /** Connects, and shows everything there. The returned function ends it for good. */
  attach(sink: Sink): () => void {
    this.#sink = sink;
    this.#open();
    const again = () => document.hidden || this.retryNow();
    addEventListener("online", again);
    const unwatch = whenHidden(
      () => this.#sleep(),
      () => (this.#asleep ? this.#open() : this.retryNow()),
    );
    return () => {
      removeEventListener("online", again);
      unwatch();
      this.#close();
    };
  }

  /** Reactive: whoever reads it is told when it is another one. */
  get seen(): Seen {
    this.#subscribe();
    return this.#now;
  }

  take(): void {
    this.#send({ kind: "lease", action: "take" });
  }

  release(): void {
    this.#send({ kind: "lease", action: "release" });
  }

  key(key: KeyPress): void {
    this.#send({ kind: "key", key });
  }

  text(text: string): void {
    if (text) this.#send({ kind: "text", text });
  }

  paste(text: string): void {
    if (text.length > PASTE_LIMIT) return this.#refuse(`${text.length.toLocaleString()} characters are too many to paste`);
    if (text) this.#send({ kind: "paste", text });
  }

  /** Bytes as they are, each a character of `binary`. */
  raw(binary: string): void {
    this.#send({ kind: "raw", data: btoa(binary) });
  }

  resize(cols: number, rows: number): void {
    this.#send({ kind: "resize", cols, rows });
  }

  /** Does not wait any longer. Nothing happens where a connection is open. */
  retryNow(): void {
    if (this.#now.link.state !== "retrying") return;
    clearTimeout(this.#timer);
    this.#open();
  }

  // -- the connection

  #open(): void {
    if (this.#closed) return;
    this.#asleep = false;
    this.#know({ link: { state: "connecting" } });
    const address = new URL(this.#path, location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    address.hash = "";
    address.searchParams.set("viewer", viewerId());
    if (this.#next !== null) address.searchParams.set("offset", String(this.#next));
    const socket = new WebSocket(address);
    let greeted = false;
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => {
      if (socket !== this.#socket) return;
      greeted = true;
      if (typeof data === "string") this.#receive(JSON.parse(data) as AnyTerminalMessage);
      else this.#output(data as ArrayBuffer);
    };
    socket.onclose = ({ code }) => {
      if (socket !== this.#socket) return;
      if (code === LOGGED_OUT) this.#putOut();
      else void this.#lost(greeted);
    };
    this.#socket = socket;
  }

  async #lost(greeted: boolean): Promise<void> {
    this.#socket = null;
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    if (this.#closed) return;
    if (this.#now.ended) return this.#know({ link: { state: "ended" } });
    if (!greeted) {
      try {
        await this.#why();
      } catch (thrown) {
        const problem = asProblem(thrown);
        if (problem.status >= 400 && problem.status < 500 && !this.#closed) return this.#know({ link: { state: "refused", problem } });
      }
    }
    if (!this.#closed && !this.#asleep) this.#later();
  }

  /** The login is over: nothing is tried again, the page shows how to log in. */
  #putOut(): void {
    this.#socket = null;
    clearTimeout(this.#ackTimer);
    const problem = new Problem(401, "unauthenticated", "You are no longer logged in", "Open a new link: ostler link");
    this.#know({ link: { state: "refused", problem } });
    loggedOut.tell();
  }

  #later(): void {
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.#attempt++) * (0.8 + Math.random() * 0.4);
    this.#know({ link: { state: "retrying", at: Date.now() + wait } });
    this.#timer = setTimeout(() => this.#open(), wait);
  }

  #close(): void {
    this.#closed = true;
    this.#hangUp();
    this.#sink = null;
  }

  /** Nobody looks: what the program says meanwhile is read when somebody does. */
  #sleep(): void {
    if (this.#now.link.state === "ended" || this.#now.link.state === "refused") return;
    this.#asleep = true;
    this.#takeAgain = this.#now.yours;
    this.#hangUp();
  }

  #hangUp(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    this.#socket?.close(1000);
    this.#socket = null;
  }

  #know(news: Partial<Seen>): void {
    const now = { ...this.#now, ...news };
    const canType = !now.ended && now.rights !== "view" && (now.terminal?.typing ?? false);
    this.#now = { ...now, canType, yours: now.lease.yours && !now.ended };
    for (const update of this.#tell) update();
  }

  // -- what comes

  #receive(message: AnyTerminalMessage): void {
    switch (message.kind) {
      case "hello":
        return this.#onHello(message);
      case "snapshot":
        return this.#show(message);
      case "resize":
        this.#sink?.resize(message.cols, message.rows);
        return this.#know({ cols: message.cols, rows: message.rows });
      case "facts":
        return this.#onFacts(message);
      case "lease": {
        const { holder, yours, waiting = null, due = null } = message;
        if (this.#takeAgain && holder === null) this.take();
        this.#takeAgain = false;
        return this.#know({ lease: { holder, yours, waiting, due }, trouble: null });
      }
      case "exit":
        return this.#know({ ended: true, exit: message.exit, lease: NOBODY, link: { state: "ended" } });
      case "error":
        this.#know({ trouble: message.problem });
    }
  }

  #onHello({ terminal, rights, resumed }: AnyTerminalMessage & { kind: "hello" }): void {
    this.#attempt = 0;
    if (resumed && this.#next !== null) this.#acked = this.#next;
    else this.#next = null;
    const ended = terminal?.state === "ended";
    this.#know({ link: { state: "live" }, terminal, rights, ended, exit: terminal?.exit ?? null, lease: NOBODY, trouble: null });
  }

  #show({ cols, rows, vt, offset, title = "", cwd = "", progress = null }: AnyTerminalMessage & { kind: "snapshot" }): void {
    this.#next = this.#shown = this.#acked = offset;
    this.#screen += 1;
    this.#sink?.show(cols, rows, vt);
    this.#send({ kind: "ack", offset }); // after a large one no other comes before
    this.#know({ cols, rows, title, cwd, progress });
  }

  #onFacts({ title, cwd, progress }: AnyTerminalMessage & { kind: "facts" }): void {
    this.#know({
      title: title ?? this.#now.title,
      cwd: cwd ?? this.#now.cwd,
      progress: progress === "none" ? null : (progress ?? this.#now.progress),
    });
  }

  #output(frame: ArrayBuffer): void {
    const { offset, data } = readOutput(frame);
    if (this.#next === null) return; // a snapshot that was asked for is under way
    if (offset !== this.#next) {
      this.#next = null;
      return this.#send({ kind: "refresh" });
    }
    const end = (this.#next = offset + data.length);
    this.receivedAt = Date.now();
    const screen = this.#screen;
    this.#sink?.write(data, () => screen === this.#screen && this.#parsed(end));
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
    this.#send({ kind: "ack", offset: this.#acked });
  }

  // -- what is said

  #send(message: AnyViewerMessage): void {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#socket.send(JSON.stringify({ n: ++this.#number, ...message }));
  }

  #refuse(message: string): void {
    this.#know({ trouble: { kind: "bad_request", message, hint: "Write it to a file instead" } });
  }
}

/** A viewer of this terminal. */
export function viewTerminal(id: string, why?: () => Promise<unknown>): Viewer {
  return new Viewer(`/api/terminals/${encodeURIComponent(id)}/ws`, why);
}

/** Tells two windows of one person apart; a reload is the same window. */
function viewerId(): string {
  const kept = sessionStorage.getItem("ostler-viewer");
  if (kept !== null && /^[A-Za-z0-9]{8,40}$/.test(kept)) return kept;
  const made = Array.from(crypto.getRandomValues(new Uint8Array(10)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  sessionStorage.setItem("ostler-viewer", made);
  return made;
}
