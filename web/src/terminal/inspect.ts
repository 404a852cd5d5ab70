// What is on the screens, to be read by tests and by the curious: window.__ostlerTerminals[id].text()

import type { Screen } from "./screen";

export interface Inspected {
  text(): string;
  /** One cell of the screen, from 0: its characters, how many columns it takes, and its colour as drawn. */
  cell(x: number, y: number): { chars: string; width: number; bold: boolean; colour: string } | null;
  readonly cols: number;
  readonly rows: number;
  readonly cursor: { x: number; y: number };
}

const screens: Record<string, Inspected> = {};
Object.defineProperty(window, "__ostlerTerminals", { value: screens, writable: false });

/** Lists a screen until the returned function is called. */
export function publish(id: string, screen: Screen): () => void {
  const { term } = screen;
  const shown: Inspected = Object.freeze({
    text: () => screen.text(),
    cell(x: number, y: number) {
      const buffer = term.buffer.active;
      const cell = buffer.getLine(buffer.baseY + y)?.getCell(x);
      if (!cell) return null;
      const colour = cell.isFgDefault() ? "default" : `${cell.isFgRGB() ? "rgb" : "palette"} ${cell.getFgColor()}`;
      return { chars: cell.getChars(), width: cell.getWidth(), bold: cell.isBold() !== 0, colour };
    },
    get cols() {
      return term.cols;
    },
    get rows() {
      return term.rows;
    },
    get cursor() {
      return { x: term.buffer.active.cursorX, y: term.buffer.active.cursorY };
    },
  });
  screens[id] = shown;
  return () => {
    if (screens[id] === shown) delete screens[id];
  };
}
