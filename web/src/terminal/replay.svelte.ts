// A recording as it was: any moment of it, and from there on in its own time, or faster.

import { api, asProblem, type Problem } from "../api";
import { readCast, readSize, type Cast } from "./cast";
import type { Sink, Source } from "./seen";

export const SPEEDS = [0.5, 1, 2, 4, 8];
export const IDLE_LIMITS = [0, 1, 3]; // seconds a pause may last while playing; 0: as long as it was
const CHUNK = 500_000; // characters given to the screen at once

/** Terminals whose recording is to play as soon as they are shown. */
export const toReplay = new Set<string>();

export class Replay implements Source {
  at = $state(0); // seconds since the start
  playing = $state(false);
  speed = $state(1);
  idleLimit = $state(1);
  cast = $state.raw<Cast | null>(null);
  problem = $state.raw<Problem | null>(null);

  #terminal: string;
  #sink: Sink | null = null;
  #next = 0; // the first event that is not on the screen
  #shown = false; // the screen is at #next, not at something else
  #drawing = false;
  #frame = 0;
  #before = 0;

  constructor(terminal: string) {
    this.#terminal = terminal;
  }

  get length(): number {
    return this.cast?.length ?? 0;
  }

  /** Fetches the recording, again if the program has written since. */
  async load(): Promise<void> {
    try {
      const cast = readCast(await api.recording(this.#terminal));
      if (cast === null) throw new Error("This recording cannot be read");
      this.cast = cast;
      this.problem = null;
    } catch (thrown) {
      this.problem = asProblem(thrown);
    }
  }

  attach(sink: Sink): () => void {
    this.#sink = sink;
    this.#shown = false;
    void this.#draw();
    return () => {
      this.pause();
      this.#sink = null;
    };
  }

  seek(at: number): void {
    this.at = Math.min(this.length, Math.max(0, at));
    void this.#draw();
  }

  play(): void {
    if (!this.cast || this.playing) return;
    if (this.at >= this.length) this.seek(0);
    this.playing = true;
    this.#before = performance.now();
    this.#frame = requestAnimationFrame((now) => this.#tick(now));
  }

  pause(): void {
    this.playing = false;
    cancelAnimationFrame(this.#frame);
  }

  #tick(now: number): void {
    if (!this.playing) return;
    const passed = ((now - this.#before) / 1000) * this.speed;
    this.#before = now;
    this.seek(this.#skipped(this.at + passed));
    if (this.at >= this.length) return this.pause();
    this.#frame = requestAnimationFrame((then) => this.#tick(then));
  }

  /** Jumps over a pause that is longer than it may last. */
  #skipped(at: number): number {
    const next = this.cast?.events[this.#next];
    if (!next || this.idleLimit === 0 || next.at - at <= this.idleLimit) return at;
    return next.at - this.idleLimit;
  }

  /** Brings the screen to `at`. While it is under way, only the last request counts. */
  async #draw(): Promise<void> {
    if (this.#drawing) return;
    this.#drawing = true;
    try {
      while (this.cast && this.#sink && !this.#isThere(this.cast)) await this.#forward(this.cast, this.#sink);
    } finally {
      this.#drawing = false;
    }
  }

  #isThere({ events }: Cast): boolean {
    const next = events[this.#next];
    return this.#shown && !this.#isPast(events) && (next === undefined || next.at > this.at);
  }

  #isPast(events: Cast["events"]): boolean {
    return this.#next > 0 && (events[this.#next - 1]?.at ?? 0) > this.at;
  }

  async #forward(cast: Cast, sink: Sink): Promise<void> {
    if (!this.#shown || this.#isPast(cast.events)) {
      sink.show(cast.cols, cast.rows, "");
      this.#next = 0;
      this.#shown = true;
    }
    let text = "";
    for (let event = cast.events[this.#next]; event && event.at <= this.at; event = cast.events[++this.#next]) {
      if (event.kind === "o") text += event.data;
      if (event.kind !== "r" && text.length < CHUNK) continue;
      sink.write(text);
      text = "";
      const size = event.kind === "r" ? readSize(event.data) : null;
      if (size) sink.resize(size.cols, size.rows);
      if (event.kind !== "r") {
        this.#next += 1;
        break; // let the screen catch up
      }
    }
    await new Promise<void>((resolve) => sink.write(text, resolve));
  }
}
