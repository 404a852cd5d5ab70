// An xterm as ostler uses it: it shows, it selects, it searches. It answers no question of the program, and
// what is typed goes to the server as keys, and only by who holds the keyboard.

import "@xterm/xterm/css/xterm.css";
import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { WebglAddon } from "@xterm/addon-webgl";
import { Terminal, type IDisposable } from "@xterm/xterm";
import { leaveAnswersToServer } from "./answers";
import { Drawing } from "./drawing";
import { rowHeight } from "./look.svelte";
import { palette } from "./palette";
import { extent, textLook, type Grain, type Letter, type TextLook } from "./text_size";
import { Typing, type Keyboard } from "./typing";
import { countAsServer } from "./widths";

export interface ScreenCallbacks {
  /** Who is typed to; null while somebody else has the keyboard, or nobody can type here. */
  keyboard: () => Keyboard | null;
  /** A key that would go nowhere, since the keyboard is not ours. Who took it for that key says where to. */
  wanted: (event: KeyboardEvent) => Keyboard | null;
  /** The pointer is over a link (null: no longer). Cells are never covered: it is told elsewhere. */
  pointed: (address: string | null) => void;
  /** The program's size, or that of the text, is another one. */
  resized: () => void;
}

const SMALLEST_TEXT = 7; // pixels, when a screen that is not ours is made to fit
const TIGHT_ROW = 1.2; // of the text's size
const SCROLLBAR = 6;
const [MIN_COLS, MIN_ROWS, MAX_COLS, MAX_ROWS] = [20, 5, 1000, 500]; // as the server has them

export class Screen {
  readonly term: Terminal;
  readonly drawing: Drawing;
  readonly typing: Typing;
  readonly search = new SearchAddon({ highlightLimit: 500 });
  #fit = new FitAddon();
  #webgl: WebglAddon | null = null;
  /** The way of drawing is another one. */
  changed = () => {};
  #accelerated = false;
  #refused = false; // WebGL was tried, and is no good here
  #arrange = () => {}; // the text as it was last asked for
  #host: HTMLElement;
  #made: IDisposable[] = [];

  constructor(host: HTMLElement, callbacks: ScreenCallbacks) {
    this.#host = host;
    this.term = new Terminal({ ...OPTIONS, theme: palette(), fontFamily: monospace(), linkHandler: linkHandler(callbacks) });
    this.drawing = new Drawing(this.term, callbacks.resized);
    this.#made.push(leaveAnswersToServer(this.term));
    this.#load(callbacks);
    this.term.open(host);
    showCursor(this.term);
    this.typing = new Typing(this.term, callbacks);
  }

  set aloud(on: boolean) {
    this.term.options.screenReaderMode = on;
  }

  /** The size that would fill the room, or null while there is none (a hidden pane). */
  room(): { cols: number; rows: number } | null {
    if (this.#host.clientWidth < 40 || this.#host.clientHeight < 20) return null;
    const found = this.#fit.proposeDimensions();
    if (!found || !Number.isFinite(found.cols) || !Number.isFinite(found.rows)) return null;
    return { cols: clamp(found.cols, MIN_COLS, MAX_COLS), rows: clamp(found.rows, MIN_ROWS, MAX_ROWS) };
  }

  /** Makes a screen whose size is not ours to change fit: smaller text, and what still sticks out can be panned to. */
  shrink(size: number): void {
    this.#arrange = () => {
      const { clientWidth: width, clientHeight: height } = this.#host;
      if (width >= 40 && height >= 20) this.#setText(this.#fitting(size, width, height));
    };
    this.#arrange();
  }

  /** The text at the reader's size, the room filled. */
  fill(size: number): void {
    this.#arrange = () => this.#setText(textLook(size, rowHeight(size), measured(size), this.#grain()));
    this.#arrange();
  }

  /** Draws by the graphics card where there is one; a page has few such contexts, so only what is seen. */
  accelerate(on: boolean): void {
    if (on === this.#accelerated || (on && this.#refused)) return;
    this.#accelerated = on;
    // The card's cells are others. The text is arranged for them before glyphs are drawn, or they would be drawn twice
    if (on) this.#arrange();
    if (on) this.#loadWebgl();
    else this.#dropWebgl();
    this.#pan();
  }

  get renderer(): "webgl" | "dom" {
    return this.#webgl ? "webgl" : "dom";
  }

  /** The rows as text, scrollback and all. */
  text(): string {
    const { active } = this.term.buffer;
    const rows = Array.from({ length: active.length }, (_, y) => active.getLine(y)?.translateToString(true) ?? "");
    return rows.join("\n").trimEnd();
  }

  dispose(): void {
    for (const one of this.#made) one.dispose();
    this.typing.dispose();
    this.term.dispose();
  }

  #load(callbacks: ScreenCallbacks): void {
    const { term } = this;
    const hover = (_: MouseEvent, address: string) => callbacks.pointed(address);
    countAsServer(term);
    term.loadAddon(this.#fit);
    term.loadAddon(this.search);
    term.loadAddon(new WebLinksAddon(follow, { hover, leave: () => callbacks.pointed(null) }));
  }

  #loadWebgl(): void {
    try {
      const webgl = new WebglAddon();
      webgl.onContextLoss(() => this.#withoutWebgl());
      this.term.loadAddon(webgl);
      this.#webgl = webgl;
      requestAnimationFrame(() => requestAnimationFrame(() => this.#check()));
    } catch {
      this.#accelerated = false; // no WebGL: the DOM renderer stays
      this.#dropWebgl();
    }
  }

  #dropWebgl(): void {
    this.#webgl?.dispose();
    this.#webgl = null;
    this.#arrange();
  }

  /** A browser that pretends to be another device may draw at the wrong scale: then without the graphics card. */
  #check(): void {
    const canvas = this.term.element?.querySelector<HTMLCanvasElement>(".xterm-screen > canvas:last-of-type");
    if (!this.#webgl || !canvas || canvas.clientWidth === 0) return;
    const scale = canvas.width / (canvas.clientWidth * (window.devicePixelRatio || 1));
    if (scale > 0.8 && scale < 1.25) return;
    this.#withoutWebgl();
  }

  #withoutWebgl(): void {
    this.#refused = true;
    this.accelerate(false);
    this.changed();
  }

  /** The largest text up to this size whose cells all have room; rows move together before it shrinks. */
  #fitting(size: number, width: number, height: number): TextLook {
    const { cols, rows } = this.term;
    const grain = this.#grain();
    for (let text = size; ; text -= 0.5) {
      const row = clamp(Math.floor(height / rows), Math.ceil(text * TIGHT_ROW), rowHeight(text));
      const look = textLook(text, row, measured(text), grain);
      const cells = extent(look, measured(text), cols, rows, grain);
      if ((cells.width <= width && cells.height <= height) || text <= SMALLEST_TEXT) return look;
    }
  }

  #grain(): Grain {
    return { ratio: window.devicePixelRatio || 1, whole: this.#accelerated };
  }

  #setText(look: TextLook): void {
    const { options } = this.term;
    // Only what is another: xterm draws its glyphs anew for each of them
    if (options.fontSize !== look.fontSize) options.fontSize = look.fontSize;
    if (options.lineHeight !== look.lineHeight) options.lineHeight = look.lineHeight;
    if (options.letterSpacing !== look.letterSpacing) options.letterSpacing = look.letterSpacing;
    this.#pan();
  }

  /** Pixels of all cells. */
  #extent(): { width: number; height: number } {
    const cells = this.term.element?.querySelector<HTMLElement>(".xterm-screen");
    return { width: cells?.offsetWidth ?? 0, height: cells?.offsetHeight ?? 0 };
  }

  /** The element is as large as the cells, or as the room: then the host scrolls, and the scrollbar is at the edge. */
  #pan(): void {
    const { width, height } = this.#extent();
    const element = this.term.element;
    if (!element) return;
    element.style.width = width > this.#host.clientWidth ? `${width}px` : "100%";
    element.style.height = height > this.#host.clientHeight ? `${height}px` : "100%";
    this.#host.scrollTop = this.#host.scrollHeight;
  }
}

const OPTIONS = {
  allowProposedApi: true, // the widths of graphemes
  altClickMovesCursor: false,
  cursorBlink: true,
  cursorInactiveStyle: "outline",
  customGlyphs: true,
  drawBoldTextInBrightColors: false,
  fontWeightBold: "700",
  logLevel: "off",
  macOptionClickForcesSelection: true,
  minimumContrastRatio: 4.5,
  overviewRuler: { width: SCROLLBAR },
  rescaleOverlappingGlyphs: true,
  rightClickSelectsWord: false,
  scrollback: 10_000,
  scrollOnUserInput: true,
} as const;

/** Opens a link, in a page of its own that knows nothing of this one, and only when it was meant. */
function follow(event: MouseEvent, address: string): void {
  if (!(event.ctrlKey || event.metaKey) || !/^https?:\/\//i.test(address)) return;
  window.open(address, "_blank", "noopener,noreferrer");
}

function linkHandler(callbacks: ScreenCallbacks) {
  return {
    activate: follow,
    hover: (_: MouseEvent, address: string) => callbacks.pointed(address),
    leave: () => callbacks.pointed(null),
    allowNonHttpProtocols: false,
  };
}

/** xterm draws no cursor before it had the focus once; who only watches wants to see it too. */
function showCursor({ textarea }: Terminal): void {
  textarea?.dispatchEvent(new FocusEvent("focus"));
  textarea?.dispatchEvent(new FocusEvent("blur"));
}

let font = "";

export function monospace(): string {
  return (font ||= getComputedStyle(document.documentElement).getPropertyValue("--font-mono").trim() || "monospace");
}

const letters = new Map<number, Letter>();

/** A letter of this size. */
function measured(size: number): Letter {
  const known = letters.get(size);
  if (known) return known;
  const pen = document.createElement("canvas").getContext("2d");
  if (!pen) return { width: size * 0.6, height: size * 1.2 };
  pen.font = `${size}px ${monospace()}`;
  const { width, fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = pen.measureText("W");
  const found = { width, height: Math.ceil(up + down) };
  letters.set(size, found);
  return found;
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}
