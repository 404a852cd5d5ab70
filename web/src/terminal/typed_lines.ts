// Marks in the margin: the lines that were entered here. They move with the rows, and never lie over a cell.

import type { IDisposable, IMarker, Terminal } from "@xterm/xterm";

const MOST = 500;

export class TypedLines {
  #term: Terminal;
  #margin: HTMLElement;
  #markers: IMarker[] = [];
  #made: IDisposable[];
  #frame = 0;

  constructor(term: Terminal, margin: HTMLElement) {
    this.#term = term;
    this.#margin = margin;
    const later = () => this.#later();
    this.#made = [term.onRender(later), term.onScroll(later), term.buffer.onBufferChange(later)];
  }

  /** The line with the cursor is entered. A program that has the whole screen has no lines. */
  add(): void {
    if (this.#term.buffer.active.type === "alternate") return;
    const marker = this.#term.registerMarker(0);
    if (this.#markers.at(-1)?.line === marker.line) return marker.dispose();
    this.#markers.push(marker);
    if (this.#markers.length > MOST) this.#markers.shift()?.dispose();
    this.#later();
  }

  dispose(): void {
    cancelAnimationFrame(this.#frame);
    for (const one of this.#made) one.dispose();
  }

  #later(): void {
    if (this.#markers.length === 0) return;
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #draw(): void {
    const { rows, buffer, element } = this.#term;
    const cells = element?.querySelector<HTMLElement>(".xterm-screen");
    if (!cells) return;
    this.#markers = this.#markers.filter((marker) => !marker.isDisposed);
    const top = cells.getBoundingClientRect().top - this.#margin.getBoundingClientRect().top;
    const row = cells.offsetHeight / rows;
    const shown = buffer.active.type === "alternate" ? [] : this.#markers.map(({ line }) => line - buffer.active.viewportY);
    this.#margin.replaceChildren(
      ...shown
        .filter((y) => y >= 0 && y < rows)
        .map((y) => {
          const mark = document.createElement("i");
          mark.title = "entered by you";
          mark.style.top = `${top + y * row}px`;
          mark.style.height = `${row}px`;
          return mark;
        }),
    );
  }
}
