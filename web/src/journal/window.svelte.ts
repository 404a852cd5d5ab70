// Which entries are drawn: a window over a list of any length, that follows its end or stays where one reads.

import { tick } from "svelte";

const FIRST = 80; // entries that are drawn when one arrives
const PAGE = 50; // entries that come in at an end
const MOST = 200; // entries that are drawn at a time
const NEAR = 1200; // px from an end at which more comes in
const BOTTOM = 48; // px from the very end that still count as being there

export class Window {
  from = $state(0);
  to = $state(0);
  follow = $state(true); // the end is shown, and stays shown as it grows
  seen = $state(0); // entries that there were when the reader left the end
  box: HTMLElement | null = null;
  #length = 0;
  #busy = false;

  /** The list has become this long (or its last entries have grown). */
  async grown(length: number): Promise<void> {
    this.#length = length;
    if (this.follow) {
      this.to = length;
      if (length - this.from > MOST || this.from > length) this.from = Math.max(0, length - FIRST);
      this.seen = length;
      await tick();
      this.#toBottom();
    } else if (this.to > length) {
      this.to = length;
      this.from = Math.min(this.from, length);
    }
  }

  /** Goes to the end and follows it. */
  async end(): Promise<void> {
    this.follow = true;
    this.from = Math.max(0, this.#length - FIRST);
    await this.grown(this.#length);
  }

  /** Shows the entry with this index, and stays there. */
  async reveal(index: number, key: string): Promise<void> {
    this.follow = false;
    this.from = Math.max(0, index - FIRST / 2);
    this.to = Math.min(this.#length, index + FIRST / 2);
    this.seen = this.#length;
    await tick();
    this.#element(key)?.scrollIntoView({ block: "center" });
  }

  /** The reader moved, opened a fold, or the box changed its size. */
  scrolled(): void {
    const box = this.box;
    if (!box || this.#busy) return;
    const below = box.scrollHeight - box.scrollTop - box.clientHeight;
    const atEnd = this.to === this.#length && below < BOTTOM;
    if (atEnd !== this.follow) {
      this.follow = atEnd;
      this.seen = this.#length;
    }
    if (box.scrollTop < NEAR && this.from > 0) void this.#move(-PAGE);
    else if (below < NEAR && this.to < this.#length) void this.#move(PAGE);
  }

  resized(): void {
    if (this.follow) this.#toBottom();
  }

  /** Takes entries in at one end and lets go of some at the other; what is being read does not move. */
  async #move(by: number): Promise<void> {
    this.#busy = true;
    const anchor = this.#anchor();
    if (by < 0) {
      this.from = Math.max(0, this.from + by);
      this.to = Math.min(this.to, this.from + MOST);
    } else {
      this.to = Math.min(this.#length, this.to + by);
      this.from = Math.max(this.from, this.to - MOST);
    }
    await tick();
    const element = anchor && this.#element(anchor.key);
    if (element && this.box) this.box.scrollTop += element.getBoundingClientRect().top - anchor.top;
    this.#busy = false;
  }

  #anchor(): { key: string; top: number } | null {
    if (!this.box) return null;
    const edge = this.box.getBoundingClientRect().top;
    for (const element of this.box.querySelectorAll<HTMLElement>(".placed")) {
      const { top, bottom } = element.getBoundingClientRect();
      if (bottom > edge) return { key: element.dataset.key ?? "", top };
    }
    return null;
  }

  #element(key: string): HTMLElement | null {
    return this.box?.querySelector(`[data-key="${CSS.escape(key)}"]`) ?? null;
  }

  #toBottom(): void {
    if (this.box) this.box.scrollTop = this.box.scrollHeight;
  }
}
