// One session's journal as it is read: what is stored first, then what happens.

import { api, asProblem, type Problem } from "../api";
import { Stream, type Link } from "../stream";
import type { JournalEvent, SessionView, TurnView } from "../words";
import { Book, type Entry, type Progress } from "./book";
import { tellAsks } from "./chapters.svelte";

const AT_ONCE = 5000; // events a request
const BEAT = 40; // ms between two drawings of what arrives
const HIDDEN = 30_000; // a hidden tab gives its connection back: a browser has only six for one server

export class Reading {
  entries = $state.raw<Entry[]>([]);
  progress = $state.raw(new Map<string, Progress>());
  turns = $state.raw<TurnView[]>([]); // oldest first
  loaded = $state(false);
  problem = $state.raw<Problem | null>(null);
  link = $state.raw<Link>({ state: "connecting" });

  #book = new Book();
  #arrived: JournalEvent[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sleep: ReturnType<typeof setTimeout> | undefined;
  #stream: Stream | null = null;
  #closed = false;
  #asking = false;
  #askAgain = false;

  constructor(readonly session: string) {
    document.addEventListener("visibilitychange", this.#seen);
    void this.#load();
  }

  close(): void {
    this.#closed = true;
    document.removeEventListener("visibilitychange", this.#seen);
    clearTimeout(this.#timer);
    clearTimeout(this.#sleep);
    this.#stream?.close();
  }

  retryNow(): void {
    this.#stream?.retryNow();
  }

  /** The number of a turn within its session, from 1; 0 where it is not known yet. */
  number(turn: string): number {
    return this.turns.findIndex((one) => one.id === turn) + 1;
  }

  turn(id: string): TurnView | undefined {
    return this.turns.find((one) => one.id === id);
  }

  /** What /api/live tells of the session: its turn is taken over, and a change of the queue is looked up. */
  follow(view: SessionView): void {
    const told = view.turn;
    if (told) {
      const known = this.turn(told.id);
      // Its prompt is cut short there: the whole one is kept.
      if (known) this.turns = this.turns.map((one) => (one === known ? { ...told, prompt: known.prompt } : one));
      else void this.refresh();
    }
    const running = told !== null && told.state === "queued" ? 1 : 0;
    const waiting = this.turns.filter((one) => one.state === "queued" && one.id !== told?.id).length;
    if (waiting + running !== view.queued && waiting !== view.queued) void this.refresh();
  }

  /** Looks the turns up again. Calls meanwhile are one more look afterwards. */
  async refresh(): Promise<void> {
    if (this.#asking) {
      this.#askAgain = true;
      return;
    }
    this.#asking = true;
    try {
      const turns = await api.turns(this.session);
      this.turns = turns.sort((a, b) => a.created_at - b.created_at);
    } catch (thrown) {
      if (!this.loaded) this.problem = asProblem(thrown);
    } finally {
      this.#asking = false;
    }
    if (this.#askAgain && !this.#closed) {
      this.#askAgain = false;
      await this.refresh();
    }
  }

  async #load(): Promise<void> {
    this.problem = null;
    try {
      await this.refresh();
      for (let more = true; more && !this.#closed; ) {
        const { items } = await api.events(this.session, this.#book.last, AT_ONCE);
        this.#book.add(items);
        more = items.length > 0; // a page may be shorter than its limit: it has one in bytes too
      }
    } catch (thrown) {
      this.problem = asProblem(thrown);
      if (this.problem.status >= 400 && this.problem.status < 500) return;
    }
    if (this.#closed) return;
    this.loaded = this.problem === null;
    this.#draw();
    this.#listen();
  }

  #listen(): void {
    this.#stream = new Stream({
      path: () => `/api/sessions/${encodeURIComponent(this.session)}/events?after=${this.#book.last}`,
      link: (link) => (this.link = link),
      begin: () => {
        this.loaded = true;
        this.problem = null;
      },
      event: ({ data }) => {
        this.#arrived.push(JSON.parse(data) as JournalEvent);
        this.#timer ??= setTimeout(() => this.#take(), BEAT);
      },
      refused: (error) => (this.problem = asProblem(error)),
    });
  }

  #take(): void {
    this.#timer = undefined;
    const arrived = this.#arrived;
    this.#arrived = [];
    const known = new Set(this.turns.map((turn) => turn.id));
    if (arrived.some((event) => event.kind === "ended" || (event.turn && !known.has(event.turn)))) void this.refresh();
    this.#book.add(arrived);
    this.#draw();
  }

  #draw(): void {
    this.entries = [...this.#book.entries];
    tellAsks(this.session, this.entries);
    this.progress = new Map(this.#book.progress);
  }

  #seen = (): void => {
    clearTimeout(this.#sleep);
    if (document.hidden) {
      this.#sleep = setTimeout(() => {
        this.#stream?.close();
        this.#stream = null;
      }, HIDDEN);
    } else if (this.#stream) this.#stream.retryNow();
    else if (this.loaded && !this.#closed) this.#listen();
  };
}
