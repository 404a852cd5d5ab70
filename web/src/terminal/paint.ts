// A small picture of a terminal: the rows that matter, drawn cell by cell on a canvas. Cheap enough for a wall of them.

import type { IBuffer, IBufferCell, Terminal } from "@xterm/xterm";
import { palette } from "./palette";
import { monospace } from "./screen";

export interface Picture {
  /** Pixels of the text: as large as lets a whole row be seen, within these. */
  smallest: number;
  largest: number;
  dim: boolean;
  /** How many columns are to be seen whole; see `Width`. */
  cols: number;
}

interface Run {
  text: string;
  x: number;
  cells: number;
  style: string; // equal for cells that are drawn in one go
  fg: string;
  bg: string | null;
  font: string;
  alpha: number;
  line: boolean;
}

const ROW = 1.38; // of the text's size
const LEAST_COLS = 60;
const STEP = 10;
const SHRINKS_AFTER = 10_000; // ms
const MARGIN = { x: 10, y: 8 };

export function paint(canvas: HTMLCanvasElement, term: Terminal, picture: Picture): void {
  const pen = canvas.getContext("2d", { alpha: false });
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!pen || width === 0 || height === 0) return;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  pen.scale(ratio, ratio);
  pen.fillStyle = palette().background;
  pen.fillRect(0, 0, width, height);
  const font = monospace();
  const size = textSize(pen, font, width - 2 * MARGIN.x, picture);
  const row = Math.round(size * ROW * ratio) / ratio;
  pen.font = `${size}px ${font}`;
  const cell = pen.measureText("W").width;
  pen.textBaseline = "middle";
  const buffer = term.buffer.active;
  const count = Math.max(1, Math.floor((height - 2 * MARGIN.y) / row));
  const first = Math.max(0, lastUsed(buffer, term.rows) + 1 - count);
  for (let y = first; y < Math.min(term.rows, first + count); y++)
    for (const run of runs(buffer, y, term.cols, picture.dim, size, font))
      draw(pen, run, MARGIN.x + run.x * cell, MARGIN.y + (y - first) * row, cell, row);
  if (!picture.dim) caret(pen, MARGIN.x + buffer.cursorX * cell, MARGIN.y + (buffer.cursorY - first) * row, cell, row);
}

/** How wide a screen really is. It may grow at once; it shrinks only after a while, or the text would jump. */
export class Width {
  #cols = 0;
  #since = 0;

  of(term: Terminal, now: number): number {
    const used = Math.min(term.cols, Math.max(LEAST_COLS, Math.ceil(usedCols(term) / STEP) * STEP));
    if (used < this.#cols && now - this.#since < SHRINKS_AFTER) return Math.min(this.#cols, term.cols);
    if (used >= this.#cols) this.#since = now;
    return (this.#cols = used);
  }
}

function usedCols({ buffer: { active }, rows }: Terminal): number {
  const lengths = Array.from({ length: rows }, (_, y) => active.getLine(active.baseY + y)?.translateToString(true).length ?? 0);
  return Math.max(...lengths);
}

function textSize(pen: CanvasRenderingContext2D, font: string, width: number, picture: Picture): number {
  pen.font = `100px ${font}`;
  const whole = (width * 100) / (picture.cols * pen.measureText("W").width);
  return Math.min(picture.largest, Math.max(picture.smallest, Math.floor(whole * 4) / 4));
}

/** The last row that shows something: what is below it is not worth room. */
function lastUsed(buffer: IBuffer, rows: number): number {
  for (let y = rows - 1; y > buffer.cursorY; y--)
    if (buffer.getLine(buffer.baseY + y)?.translateToString(true).trim()) return y;
  return buffer.cursorY;
}

/** The row as pieces of one style. Only plain ASCII is joined: other characters may come from another font. */
function* runs(buffer: IBuffer, y: number, cols: number, dim: boolean, size: number, font: string): Generator<Run> {
  const line = buffer.getLine(buffer.baseY + y);
  let open: Run | null = null;
  const cell = buffer.getNullCell();
  for (let x = 0; line && x < cols; x++) {
    line.getCell(x, cell);
    if (cell.getWidth() === 0) continue;
    const next = runOf(cell, x, dim, size, font);
    const plain = /^[\x20-\x7e]$/.test(next.text);
    if (open && plain && open.style === next.style) {
      open.text += next.text;
      open.cells += 1;
      continue;
    }
    if (open) yield open;
    open = null;
    if (plain) open = next;
    else yield next;
  }
  if (open) yield open;
}

function runOf(cell: IBufferCell, x: number, dim: boolean, size: number, font: string): Run {
  const colours = palette();
  let fg = cell.isFgDefault() ? colours.foreground : colourOf(cell.getFgColor(), cell.isFgRGB());
  let bg = cell.isBgDefault() ? null : colourOf(cell.getBgColor(), cell.isBgRGB());
  if (cell.isInverse()) [fg, bg] = [bg ?? colours.background, fg];
  if (dim) [fg, bg] = [colours.dim, null];
  const face = `${cell.isItalic() ? "italic " : ""}${cell.isBold() && !dim ? "700 " : ""}${size}px ${font}`;
  const alpha = cell.isInvisible() ? 0 : cell.isDim() ? (dim ? 0.8 : 0.65) : 1;
  const line = cell.isUnderline() !== 0;
  const text = cell.getChars() || " ";
  return { text, x, cells: cell.getWidth() || 1, style: `${fg} ${bg} ${face} ${alpha} ${line}`, fg, bg, font: face, alpha, line };
}

function colourOf(colour: number, rgb: boolean): string {
  if (rgb) return `#${colour.toString(16).padStart(6, "0")}`;
  return palette().ansi[colour] ?? palette().foreground;
}

function draw(pen: CanvasRenderingContext2D, run: Run, x: number, y: number, cell: number, row: number): void {
  if (run.bg !== null) {
    pen.fillStyle = run.bg;
    pen.fillRect(x, y, run.cells * cell + 0.5, row);
  }
  if (run.text.trim() === "" && !run.line) return;
  pen.fillStyle = run.fg;
  pen.globalAlpha = run.alpha;
  pen.font = run.font;
  pen.fillText(run.text, x, y + row / 2);
  if (run.line) pen.fillRect(x, y + row - 1.5, run.cells * cell, 1);
  pen.globalAlpha = 1;
}

function caret(pen: CanvasRenderingContext2D, x: number, y: number, cell: number, row: number): void {
  pen.strokeStyle = palette().dim;
  pen.lineWidth = 1;
  pen.strokeRect(Math.round(x) + 0.5, Math.round(y) + 0.5, Math.max(3, cell - 1), row - 1);
}
