// All that this page follows, over one WebSocket: the rows of the whole server, and the journals that are open.
//
// A browser has six connections for a host, for all of its tabs together, and an event stream takes one for as long
// as it lasts. WebSockets do not count there: however many tabs there are, what a person does still goes out.

import { api, asProblem, loggedOut, Problem } from "./api";
import type { JournalRequest, ProblemAnswer } from "./api_types";

export interface StreamEvent {
  kind: string;
  id: string;
  data: string;
}

export type StreamConnection = { state: "connecting" } | { state: "connected" } | { state: "retrying"; at: number; why: string };

export interface RowOptions {
  event: (event: StreamEvent) => void;
  link: (link: StreamConnection) => void;
  /** A connection begins: what was told before may be told again. */
  begin: () => void;
  /** Not worth a retry. */
  refused: () => void;
}

export interface JournalOptions {
  session: string;
  /** Where to go on from: asked for at each connection anew. */
  after: () => number;
  event: (event: StreamEvent) => void;
  refused: (problem: Problem) => void;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
const AGAIN = 3_000; // ms until a journal is asked for again that the server could not read
const SILENCE = 8_500; // ms; the server says something every 3 s at the latest
const SECOND_LOOK = 500; // ms: where the page itself was held up, what the server said is still on its way
const ROWS = 0; // the number of the stream that is always there
const LOGGED_OUT = 4401; // the code of a connection whose login is over

class LiveSocket {
  #rows: RowOptions | null = null; // null: closed
  #journals = new Map<number, JournalOptions>();
  #number = ROWS;
  #socket: WebSocket | null = null;
  #attempt = 0;
  #unpacking = 0; // messages that wait
  #unpacked: Promise<void> = Promise.resolve(); // until the last of them was taken in
  #why = ""; // what the server said when it ended the last connection
  #timer: ReturnType<typeof setTimeout> | undefined;
  #watch: ReturnType<typeof setTimeout> | undefined;

  /** Connects, and again and again until it is closed. */
  open(rows: RowOptions): void {
    this.close();
    this.#rows = rows;
    this.#connect();
  }

  close(): void {
    this.#rows = null;
    this.#drop();
  }

  /** Does not wait any longer. Nothing happens where a connection is open. */
  retryNow(): void {
    if (this.#timer !== undefined) this.#connect();
  }

  /** Follows a journal until the returned function is called; over a new connection as well. */
  follow(journal: JournalOptions): () => void {
    const n = ++this.#number;
    this.#journals.set(n, journal);
    this.#ask(n, journal);
    return () => {
      if (this.#journals.delete(n)) this.#say({ kind: "leave", n });
    };
  }

  // -- the connection

  #connect(): void {
    this.#drop();
    this.#rows?.link({ state: "connecting" });
    const address = new URL("/api/live/ws", location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    address.hash = "";
    const socket = new WebSocket(address);
    let greeted = false;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.#journals.forEach((journal, n) => this.#ask(n, journal));
    socket.onmessage = ({ data }) => {
      this.#listenOn();
      if (!greeted) this.#begin();
      greeted = true;
      this.#hear(socket, data);
    };
    socket.onclose = ({ code }) => {
      this.#drop();
      if (code === LOGGED_OUT) loggedOut.tell();
      else void this.#lost(greeted);
    };
    this.#socket = socket;
    this.#listenOn();
  }

  /** Lets go of the connection that there is. It may take minutes to close: nobody waits for that. */
  #drop(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#watch);
    this.#timer = undefined;
    const socket = this.#socket;
    if (!socket) return;
    this.#socket = null;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  #begin(): void {
    this.#attempt = 0;
    this.#why = "";
    this.#rows?.begin();
    this.#rows?.link({ state: "connected" });
  }

  /** A server that says nothing for so long is gone, whatever the connection looks like. */
  #listenOn(): void {
    clearTimeout(this.#watch);
    this.#watch = setTimeout(() => (this.#watch = setTimeout(() => this.#giveUp(), SECOND_LOOK)), SILENCE);
  }

  #giveUp(): void {
    this.#drop();
    this.#later();
  }

  /** A browser does not tell why a WebSocket was refused: a plain request does. */
  async #lost(greeted: boolean): Promise<void> {
    const rows = this.#rows;
    if (!greeted) {
      try {
        await api.me();
      } catch (thrown) {
        const problem = asProblem(thrown);
        if (rows !== this.#rows) return; // it was closed meanwhile
        if (problem.status >= 400 && problem.status < 500 && problem.status !== 429) return rows?.refused();
        this.#why = problem.status === 0 ? "" : problem.message;
      }
    }
    if (rows && rows === this.#rows && this.#socket === null) this.#later();
  }

  #later(): void {
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.#attempt++) * (0.8 + Math.random() * 0.4);
    this.#rows?.link({ state: "retrying", at: Date.now() + wait, why: this.#why });
    this.#timer = setTimeout(() => this.#connect(), wait);
  }

  // -- what is said and heard

  #ask(n: number, { session, after }: JournalOptions): void {
    this.#say({ kind: "follow", n, session, after: after() });
  }

  #say(request: JournalRequest): void {
    const socket = this.#socket;
    if (socket && socket.readyState === socket.OPEN) socket.send(JSON.stringify(request));
  }

  /** In order: what is packed takes a moment, and what came after it waits. */
  #hear(socket: WebSocket, data: string | ArrayBuffer): void {
    if (typeof data === "string" && this.#unpacking === 0) return this.#take(data);
    this.#unpacking += 1;
    this.#unpacked = this.#unpacked.then(async () => {
      const message = typeof data === "string" ? data : await unpack(data).catch(() => null);
      this.#unpacking -= 1;
      if (socket !== this.#socket) return;
      if (message === null) this.#giveUp();
      else this.#take(message);
    });
  }

  #take(message: string): void {
    const line = message.indexOf("\n");
    const n = Number(message.slice(0, line));
    for (const event of readEvents(message.slice(line + 1))) {
      if (n !== ROWS) this.#tellJournal(n, event);
      else if (event.kind === "trouble") this.#why = (JSON.parse(event.data) as ProblemAnswer).detail;
      else this.#rows?.event(event);
    }
  }

  #tellJournal(n: number, event: StreamEvent): void {
    const journal = this.#journals.get(n);
    if (!journal) return; // left while this was under way
    if (event.kind === "over") return this.#ask(n, journal); // its session is gone: the answer says so
    if (event.kind !== "refused") return journal.event(event);
    const { status, kind, detail, hint } = JSON.parse(event.data) as ProblemAnswer;
    if (status >= 500) return this.#askLater(n, journal);
    this.#journals.delete(n);
    journal.refused(new Problem(status, kind, detail, hint));
  }

  #askLater(n: number, journal: JournalOptions): void {
    setTimeout(() => this.#journals.has(n) && this.#ask(n, journal), AGAIN);
  }
}

/** The one connection of this page. */
export const live = new LiveSocket();

addEventListener("online", () => live.retryNow());
document.addEventListener("visibilitychange", () => document.hidden || live.retryNow());

function unpack(data: ArrayBuffer): Promise<string> {
  return new Response(new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}

/** A whole piece of an event stream: `text/event-stream`. */
function* readEvents(piece: string): Generator<StreamEvent> {
  let event: StreamEvent = { kind: "message", id: "", data: "" };
  for (const line of piece.split("\n")) {
    if (line !== "") take(event, line);
    else {
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
