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

/** Cells beside each other that are drawn in one go. Colours: -1 the default, up to 255 the palette's, above that RGB. */
interface Run {
  text: string;
  x: number;
  cells: number;
  fg: number;
  bg: number;
  flags: number;
}

const [BOLD, ITALIC, DIM, LINE, INVERSE, HIDDEN] = [1, 2, 4, 8, 16, 32];
const RGB = 1 << 24;
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
  fit(canvas, Math.round(width * ratio), Math.round(height * ratio));
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = palette().background;
  pen.fillRect(0, 0, width, height);
  const size = textSize(pen, monospace(), width - 2 * MARGIN.x, picture);
  const font = `${size}px ${monospace()}`;
  pen.textRendering = "optimizeSpeed"; // no ligatures: a cell shows what is in it
  pen.font = font;
  pen.textBaseline = "middle";
  const look = { cell: pen.measureText("W").width, row: Math.round(size * ROW * ratio) / ratio, font, dim: picture.dim };
  const { cell, row } = look;
  const buffer = term.buffer.active;
  const count = Math.max(1, Math.floor((height - 2 * MARGIN.y) / row));
  const first = Math.max(0, lastUsed(buffer, term.rows) + 1 - count);
  for (let y = first; y < Math.min(term.rows, first + count); y++)
    for (const run of runs(buffer, y, term.cols)) draw(pen, run, MARGIN.x + run.x * cell, MARGIN.y + (y - first) * row, look);
  if (!picture.dim) caret(pen, MARGIN.x + buffer.cursorX * cell, MARGIN.y + (buffer.cursorY - first) * row, cell, row);
}

/** Only when it has to: a canvas that is given a size is a new one. */
function fit(canvas: HTMLCanvasElement, width: number, height: number): void {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
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
function* runs(buffer: IBuffer, y: number, cols: number): Generator<Run> {
  const line = buffer.getLine(buffer.baseY + y);
  const cell = buffer.getNullCell();
  let open: Run | null = null;
  for (let x = 0; line && x < cols; x++) {
    line.getCell(x, cell);
    const cells = cell.getWidth();
    if (cells === 0) continue;
    const text = cell.getChars() || " ";
    const [fg, bg, flags] = [foreground(cell), background(cell), flagsOf(cell)];
    const plain = text.length === 1 && text <= "~";
    if (open && plain && open.fg === fg && open.bg === bg && open.flags === flags) {
      open.text += text;
      open.cells += 1;
      continue;
    }
    if (open) yield open;
    const next: Run = { text, x, cells, fg, bg, flags };
    open = plain ? next : null;
    if (!plain) yield next;
  }
  if (open) yield open;
}

function foreground(cell: IBufferCell): number {
  return cell.isFgDefault() ? -1 : cell.isFgRGB() ? RGB + cell.getFgColor() : cell.getFgColor();
}

function background(cell: IBufferCell): number {
  return cell.isBgDefault() ? -1 : cell.isBgRGB() ? RGB + cell.getBgColor() : cell.getBgColor();
}

function flagsOf(cell: IBufferCell): number {
  if (cell.isAttributeDefault()) return 0;
  return (
    (cell.isBold() && BOLD) |
    (cell.isItalic() && ITALIC) |
    (cell.isDim() && DIM) |
    (cell.isUnderline() && LINE) |
    (cell.isInverse() && INVERSE) |
    (cell.isInvisible() && HIDDEN)
  );
}

function colour(of: number, otherwise: string): string {
  if (of < 0) return otherwise;
  return of >= RGB ? `#${(of - RGB).toString(16).padStart(6, "0")}` : (palette().ansi[of] ?? otherwise);
}

function draw(pen: CanvasRenderingContext2D, run: Run, x: number, y: number, look: Look): void {
  const { cell, row, dim } = look;
  const colours = palette();
  const inverse = (run.flags & INVERSE) !== 0;
  const [ink, paper] = inverse ? [colour(run.bg, colours.background), colour(run.fg, colours.foreground)] : [colour(run.fg, colours.foreground), colour(run.bg, "")];
  if (paper !== "" && !dim) {
    pen.fillStyle = paper;
    pen.fillRect(x, y, run.cells * cell + 0.5, row);
  }
  const line = (run.flags & LINE) !== 0;
  if (run.flags & HIDDEN || (!line && run.text.trim() === "")) return;
  pen.fillStyle = dim ? colours.dim : ink;
  pen.globalAlpha = run.flags & DIM ? (dim ? 0.8 : 0.65) : 1;
  pen.font = `${run.flags & ITALIC ? "italic " : ""}${run.flags & BOLD && !dim ? "700 " : ""}${look.font}`;
  pen.fillText(run.text, x, y + row / 2);
  if (line) pen.fillRect(x, y + row - 1.5, run.cells * cell, 1);
  pen.globalAlpha = 1;
}

/** How one picture is drawn: pixels of a cell, and the font. */
interface Look {
  cell: number;
  row: number;
  font: string;
  dim: boolean;
}

function caret(pen: CanvasRenderingContext2D, x: number, y: number, cell: number, row: number): void {
  pen.strokeStyle = palette().dim;
  pen.lineWidth = 1;
  pen.strokeRect(Math.round(x) + 0.5, Math.round(y) + 0.5, Math.max(3, cell - 1), row - 1);
}
