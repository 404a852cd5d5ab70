// Puts what a terminal sends on an xterm, in order. xterm parses later than it is told: a resize, or a new
// screen, has to wait until everything before it was parsed, and everything after it has to wait for that.

import type { Terminal } from "@xterm/xterm";
import type { Sink } from "./seen";

const RESET = "\x1bc";

export class Drawing implements Sink {
  #term: Terminal;
  #resized: () => void;
  #waiting: (() => void)[] | null = null; // steps behind a barrier; null: there is none

  constructor(term: Terminal, resized: () => void = () => {}) {
    this.#term = term;
    this.#resized = resized;
  }

  show(cols: number, rows: number, vt: string): void {
    this.#afterAll(() => {
      this.#resize(cols, rows);
      this.#term.write(RESET + vt); // one write: no empty screen in between
    });
  }

  resize(cols: number, rows: number): void {
    this.#afterAll(() => this.#resize(cols, rows));
  }

  write(data: Uint8Array | string, shown?: () => unknown): void {
    this.#step(() => this.#term.write(data, shown && (() => void shown())));
  }

  /** Resolves once everything so far is on the screen. */
  settled(): Promise<void> {
    return new Promise((resolve) => this.write("", resolve));
  }

  #resize(cols: number, rows: number): void {
    if (cols !== this.#term.cols || rows !== this.#term.rows) this.#term.resize(cols, rows);
    this.#resized();
  }

  #step(step: () => void): void {
    if (this.#waiting) this.#waiting.push(step);
    else step();
  }

  #afterAll(step: () => void): void {
    this.#step(() => {
      this.#waiting = [];
      this.#term.write("", () => {
        step();
        this.#resume();
      });
    });
  }

  /** Takes the steps that waited; one of them may be a barrier again. */
  #resume(): void {
    const steps = this.#waiting ?? [];
    this.#waiting = null;
    for (const step of steps) this.#step(step);
  }
}
