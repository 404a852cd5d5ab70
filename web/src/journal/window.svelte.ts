// Which entries are drawn: a window over a list of any length, that follows its end or stays where one reads.

import { tick } from "svelte";

const FIRST = 80; // entries that are drawn when one arrives
const PAGE = 50; // entries that come in at an end
const MOST = 200; // entries that are drawn at a time
const NEAR = 1200; // px from an end at which more comes in
const BOTTOM = 48; // px from the very end that still count as being there
const MARGIN = 12; // px above the head of an ask

interface ListedEntry {
  key: string;
  seq: number;
}

export class Window {
  from = $state(0);
  to = $state(0);
  follow = $state(true); // the end is shown, and stays shown as it grows
  seen = $state(0); // entries that there were when the reader left the end
  box: HTMLElement | null = null;
  /** The reader comes near the first entry: what is before it is wanted. */
  older: () => void = () => {};
  #length = 0;
  #busy = false;
  #put: number | null = null; // where the box was scrolled to when the end was last shown,
  #size = ""; // and how large it was
  #head: number | null = null; // where the head of an ask is shown instead of the end

  /** The list has become this long (or its last entries have grown). */
  async grown(length: number): Promise<void> {
    this.#length = length;
    if (this.follow) {
      this.to = length;
      if (length - this.from > MOST || this.from > length) this.from = Math.max(0, length - FIRST);
      this.seen = length;
      await tick();
      this.#followEnd();
      return;
    }
    this.to = Math.min(this.to, length);
    this.from = Math.min(this.from, length);
    await tick();
    this.scrolled(); // what shrinks (a card that is answered) brings the end near without a movement
  }

  /** Goes to the end and follows it. */
  async end(): Promise<void> {
    this.follow = true;
    this.#put = null;
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

  /** Carries a change out that puts older entries in front: what is drawn stays drawn, what is read does not move. */
  async prepend(change: () => void, list: () => ListedEntry[]): Promise<void> {
    const hold = this.#hold();
    const before = list();
    const [first, last] = [before[this.from], before[this.to - 1]];
    change();
    const after = list();
    this.#length = after.length;
    this.seen += after.length - before.length;
    if (first && last) [this.from, this.to] = [placeOf(first, after), placeOf(last, after) + 1];
    if (this.follow) [this.from, this.to] = [Math.min(this.from, Math.max(0, after.length - FIRST)), after.length];
    await tick();
    if (this.follow) this.#followEnd();
    else hold();
    this.scrolled();
  }

  /** The reader moved or opened a fold. What merely grew, or was given less room, is still followed. */
  scrolled(opened = false): void {
    const box = this.box;
    if (!box || this.#busy) return;
    if (this.follow && !opened && sizeOf(box) !== this.#size) return; // not the reader's doing: `resized` is called next
    const below = box.scrollHeight - box.scrollTop - box.clientHeight;
    const atHead = this.#head !== null && Math.abs(box.scrollTop - this.#head) < 2;
    const unmoved = !opened && this.follow && this.#head === null && this.#put !== null && box.scrollTop >= this.#put - 1;
    const atEnd = atHead || (this.to === this.#length && (unmoved || below < BOTTOM));
    this.#put = atEnd ? box.scrollTop : null;
    if (atEnd !== this.follow) {
      this.follow = atEnd;
      this.seen = this.#length;
    }
    if (box.scrollTop < NEAR && this.from > 0) void this.#move(-PAGE);
    else if (box.scrollTop < NEAR) this.older();
    if (below < NEAR && this.to < this.#length && !this.#busy) void this.#move(PAGE);
  }

  resized(): void {
    if (this.follow) this.#toEnd();
  }

  /** Shows the end, unless the reader has just left it: that is told a moment later than it is done. */
  #followEnd(): void {
    const box = this.box;
    if (box && this.#put !== null && box.scrollTop < this.#put - 1) this.scrolled();
    if (this.follow) this.#toEnd();
  }

  /** Takes entries in at one end and lets go of some at the other; what is being read does not move. */
  async #move(by: number): Promise<void> {
    this.#busy = true;
    const hold = this.#hold();
    if (by < 0) {
      this.from = Math.max(0, this.from + by);
      this.to = Math.min(this.to, this.from + MOST);
    } else {
      this.to = Math.min(this.#length, this.to + by);
      this.from = Math.max(this.from, this.to - MOST);
    }
    await tick();
    hold();
    this.#busy = false;
  }

  /** Remembers where what is being read stands. The returned function puts it there again. */
  #hold(): () => void {
    const box = this.box;
    if (!box) return () => {};
    const { top: edge, bottom } = box.getBoundingClientRect();
    const shown = [...box.querySelectorAll<HTMLElement>(".placed")]
      .map((element) => ({ key: element.dataset.key ?? "", rect: element.getBoundingClientRect() }))
      .filter(({ rect }) => rect.bottom > edge && rect.top < bottom);
    const below = box.scrollHeight - box.scrollTop;
    return () => {
      // An entry may have grown at its beginning, and is another one then: the next that is still there decides.
      for (const { key, rect } of shown) {
        const element = this.#element(key);
        if (element) return void (box.scrollTop += element.getBoundingClientRect().top - rect.top);
      }
      box.scrollTop = box.scrollHeight - below;
    };
  }

  #element(key: string): HTMLElement | null {
    return this.box?.querySelector(`[data-key="${CSS.escape(key)}"]`) ?? null;
  }

  /** Shows the end; but a long ask from its head, until all of it was shown. */
  #toEnd(): void {
    const box = this.box;
    if (!box) return;
    box.scrollTop = box.scrollHeight;
    const ask = box.querySelector(".ask[data-open]:not([data-shown])");
    const hidden = ask ? box.getBoundingClientRect().top + MARGIN - ask.getBoundingClientRect().top : 0;
    if (hidden > 0) box.scrollTop -= hidden;
    this.#head = hidden > 0 ? box.scrollTop : null;
    this.#put = box.scrollTop;
    this.#size = sizeOf(box);
  }
}

function sizeOf(box: HTMLElement): string {
  return `${box.clientWidth} ${box.clientHeight}`;
}

/** Where an entry stands in a list that begins earlier: it may be part of one that does. */
function placeOf(entry: ListedEntry, list: ListedEntry[]): number {
  const index = list.findIndex(({ key }) => key === entry.key);
  return index >= 0 ? index : Math.max(0, list.findLastIndex(({ seq }) => seq <= entry.seq));
}
