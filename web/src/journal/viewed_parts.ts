// How much of something long was in view, in pixels from its head: whoever decides about it has to have seen it. Pure.

const SLACK = 2; // px: edges of elements do not fall on whole pixels

export class ViewedParts {
  #parts: [number, number][] = []; // apart from each other, in order
  #height = 0;

  /** This part is in view now. True once there is no part of the whole height that was not. */
  see(from: number, to: number, height: number): boolean {
    if (Math.abs(height - this.#height) > SLACK) {
      this.#parts = []; // it is laid out anew: what was seen stands elsewhere
      this.#height = height;
    }
    if (to > from) this.#add(Math.max(0, from), Math.min(height, to));
    const [only, another] = this.#parts;
    return only !== undefined && another === undefined && only[0] <= SLACK && only[1] >= height - SLACK;
  }

  #add(from: number, to: number): void {
    const apart: [number, number][] = [];
    for (const [a, b] of this.#parts) {
      if (b < from - SLACK || a > to + SLACK) apart.push([a, b]);
      else [from, to] = [Math.min(a, from), Math.max(b, to)];
    }
    this.#parts = [...apart, [from, to] as [number, number]].sort(([a], [b]) => a - b);
  }
}
