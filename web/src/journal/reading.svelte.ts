// One session's journal as it is read: its newest part first, then what happens; older parts when they are wanted.

import { api, asProblem, type Problem } from "../api";
import { whenHidden } from "../lib/visibility";
import { live } from "../stream";
import type { JournalEvent, SessionView, TurnView } from "../words";
import { Book, type Entry, type Progress } from "./book";
import { tellAsks } from "./chapters.svelte";

const NEWEST = 1000; // events that are drawn first
const PART = 5000; // events that come in at the beginning at a time
const ENOUGH = 120; // entries that are there before anybody asks for more: the first ones drawn are whole
const BEAT = 40; // ms between two drawings of what arrives
const AGAIN = 2_000; // ms until what could not be read is asked for again

export class Reading {
  entries = $state.raw<Entry[]>([]);
  progress = $state.raw(new Map<string, Progress>());
  turns = $state.raw<TurnView[]>([]); // oldest first
  loaded = $state(false);
  /** The first event of the journal is there. */
  complete = $state(false);
  loadingOlder = $state(false);
  olderProblem = $state.raw<Problem | null>(null);
  problem = $state.raw<Problem | null>(null);
  /** Carries out a change that puts older entries in front: whoever shows them keeps their place. */
  prepending: (change: () => void) => void = (change) => change();

  #book = new Book();
  #events: JournalEvent[] = []; // all that were taken in
  #arrived: JournalEvent[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #leave: (() => void) | null = null;
  #closed = false;
  #asking = false;
  #askAgain = false;
  #older: Promise<boolean> | null = null;

  constructor(readonly session: string) {
    void this.#load();
  }

  close(): void {
    this.#closed = true;
    this.#unwatch();
    clearTimeout(this.#timer);
    clearTimeout(this.#retry);
    this.#leave?.();
  }

  /** The number of a turn within its session, from 1; 0 where it is not known yet. */
  number(turn: string): number {
    return this.turn(turn)?.number ?? 0;
  }

  turn(id: string): TurnView | undefined {
    return this.turns.find((one) => one.id === id);
  }

  /** What is told of the session: its turn is taken over, and a change of the queue is looked up. */
  follow(view: SessionView): void {
    const told = view.turn;
    if (told) {
      const known = this.turn(told.id);
      // Its prompt is cut short there: the whole one is kept.
      if (known) this.turns = this.turns.map((one) => (one === known ? newer(known, { ...told, prompt: known.prompt }) : one));
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
      this.turns = turns.map((one) => newer(this.turn(one.id), one)).sort((a, b) => a.number - b.number);
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

  /** Takes the part before the first event in. False: there is none, or it could not be read just now. */
  older(): Promise<boolean> {
    this.#older ??= this.#readOlder().finally(() => (this.#older = null));
    return this.#older;
  }

  /** Takes older parts in until something holds, or the journal's beginning is there. */
  async reach(holds: () => boolean): Promise<void> {
    while (!this.#closed && !holds() && (await this.older()));
  }

  /** Whether the event of this number is there, if there is one. */
  has(seq: number): boolean {
    return this.complete || (this.#events[0]?.seq ?? Infinity) <= seq;
  }

  async #load(): Promise<void> {
    const turns = this.refresh();
    try {
      await this.#readPart(NEWEST);
    } catch (thrown) {
      this.problem = asProblem(thrown);
      const { status } = this.problem;
      if (!this.#closed && (status < 400 || status >= 500)) this.#retry = setTimeout(() => void this.#load(), AGAIN);
      return;
    }
    if (this.#closed) return;
    this.problem = null;
    this.loaded = true;
    this.#listen();
    await turns;
    // The turns were perhaps looked up before the events: what ended in between has its figures now.
    if (this.entries.some((one) => one.kind === "ended" && this.turn(one.turn)?.state !== "ended")) void this.refresh();
    await this.reach(() => this.entries.length >= ENOUGH);
  }

  async #readOlder(): Promise<boolean> {
    if (!this.loaded || this.complete) return false;
    this.loadingOlder = true;
    this.olderProblem = null;
    try {
      await this.#readPart(PART);
      return !this.complete;
    } catch (thrown) {
      this.olderProblem = asProblem(thrown);
      return false;
    } finally {
      this.loadingOlder = false;
    }
  }

  /** The newest events, or those before the ones that are there. */
  async #readPart(limit: number): Promise<void> {
    const items = await api.eventsBefore(this.session, this.#events[0]?.seq ?? Number.MAX_SAFE_INTEGER, limit);
    if (this.#closed) return;
    const first = items[0];
    this.complete = first === undefined || first.seq === 1;
    if (first) this.prepending(() => this.#prepend(items));
  }

  /** What an older part begins may end in a newer one, so all of it is read again. */
  #prepend(items: JournalEvent[]): void {
    this.#events = items.concat(this.#events);
    this.#book = new Book();
    this.#book.add(this.#events);
    this.#draw();
  }

  #listen(): void {
    this.#leave?.();
    this.#leave = live.follow({
      session: this.session,
      after: () => this.#arrived.at(-1)?.seq ?? this.#book.last,
      event: ({ data }) => {
        this.#arrived.push(JSON.parse(data) as JournalEvent);
        this.#timer ??= setTimeout(() => this.#take(), BEAT);
      },
      refused: (problem) => (this.problem = problem),
    });
  }

  #take(): void {
    this.#timer = undefined;
    const arrived = this.#arrived.filter((event) => event.seq > this.#book.last);
    this.#arrived = [];
    const known = new Set(this.turns.map((turn) => turn.id));
    if (arrived.some((event) => event.kind === "ended" || (event.turn && !known.has(event.turn)))) void this.refresh();
    for (const event of arrived) this.#events.push(event);
    this.#book.add(arrived);
    this.#draw();
  }

  #draw(): void {
    this.entries = [...this.#book.entries];
    tellAsks(this.session, this.entries);
    this.progress = new Map(this.#book.progress);
  }

  #unwatch = whenHidden(
    () => {
      this.#leave?.();
      this.#leave = null;
    },
    () => !this.#leave && this.loaded && !this.#closed && this.#listen(),
  );
}

/** An answer may be older than what is known: a turn that has ended does not go back. */
function newer(known: TurnView | undefined, told: TurnView): TurnView {
  return known?.state === "ended" && told.state !== "ended" ? known : told;
}
