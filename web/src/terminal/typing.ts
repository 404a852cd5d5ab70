// What a person does at a screen, and where it goes: keys to the server as keys, text of an input method as
// text, the clipboard as a paste, reports of the mouse as they are. Nothing goes anywhere without the keyboard.

import type { IDisposable, Terminal } from "@xterm/xterm";
import { mac } from "../keys";
import { composes, keyOf } from "./keyboard";
import { enlarge } from "./look.svelte";
import type { KeyPress, Mod } from "./protocol";

/** Where typed things go; a Viewer is one. */
export interface Keyboard {
  key(key: KeyPress): void;
  text(text: string): void;
  paste(text: string): void;
  raw(binary: string): void;
}

interface TypingCallbacks {
  keyboard: () => Keyboard | null;
  wanted: (event: KeyboardEvent) => Keyboard | null;
}

const MOUSE = [9, 1000, 1002, 1003]; // DECSET: the modes in which a program is told of the mouse
const OWN = 65_500; // no mode at all: marks the sequences that we write ourselves
const CONTROL = /[\x00-\x1f\x7f]/;

export class Typing {
  /** Modifiers chosen on the row of keys, for the next key. */
  sticky: Mod[] = [];
  unstick: () => void = () => {};
  /** Enter is about to be sent. */
  entered: () => void = () => {};
  #term: Terminal;
  #callbacks: TypingCallbacks;
  #down = new Map<string, string>(); // code → name of keys that were sent and not let go yet
  #mouse = new Set<number>(); // what the program asked for
  #made: IDisposable[] = [];
  #stop = new AbortController();

  constructor(term: Terminal, callbacks: TypingCallbacks) {
    this.#term = term;
    this.#callbacks = callbacks;
    term.attachCustomKeyEventHandler((event) => this.#heard(event));
    this.#made.push(term.onData((data) => this.#data(data)));
    this.#made.push(term.onBinary((data) => callbacks.keyboard()?.raw(data)));
    this.#watchMouse();
    const options = { capture: true, signal: this.#stop.signal };
    term.element?.addEventListener("paste", (event) => this.#pasted(event), options);
    term.textarea?.addEventListener("blur", () => this.#letGo(), options);
    this.#scrollByTouch();
  }

  /** A key of the row under the terminal. */
  press(name: string, mods: Mod[] = []): void {
    this.#send({ name, mods: [...mods, ...this.sticky] });
  }

  /** The keyboard came or went: the mouse belongs to the program only while it is ours. */
  refreshMouse(): void {
    const ours = this.#callbacks.keyboard() !== null;
    for (const mode of this.#mouse) this.#term.write(`\x1b[?${OWN};${mode}${ours ? "h" : "l"}`);
  }

  /** The selected text goes to the clipboard. */
  copy(): void {
    const text = this.#term.getSelection();
    if (!text) return;
    if (navigator.clipboard) void navigator.clipboard.writeText(text).catch(() => document.execCommand("copy"));
    else document.execCommand("copy"); // xterm fills in the selection
  }

  dispose(): void {
    this.#stop.abort();
    for (const one of this.#made) one.dispose();
  }

  // -- keys

  /** False: xterm has nothing to do with this key. */
  #heard(event: KeyboardEvent): boolean {
    if (composes(event)) return this.#callbacks.keyboard() !== null;
    if (event.type === "keypress") return false;
    if (event.type === "keyup") return this.#released(event);
    if (this.#ours(event)) return false;
    if (mac && event.metaKey) return false; // the browser's, and the page's
    const key = keyOf(event);
    if (key === null) return false;
    const keyboard = this.#callbacks.keyboard() ?? (this.#reads(event) || !types(key) ? null : this.#callbacks.wanted(event));
    if (!keyboard) return false;
    event.preventDefault();
    this.#down.set(event.code, key.name);
    this.#send(key, keyboard);
    return false;
  }

  #send(key: KeyPress, keyboard = this.#callbacks.keyboard()): void {
    if (!keyboard) return;
    if (key.name === "Enter") this.entered();
    const mods = [...new Set([...(key.mods ?? []), ...this.sticky])];
    keyboard.key(mods.length > 0 ? { ...key, mods } : key);
    this.#spend();
    this.#term.scrollToBottom();
  }

  #released(event: KeyboardEvent): boolean {
    if (!this.#down.delete(event.code)) return false;
    const key = keyOf(event);
    if (key) this.#callbacks.keyboard()?.key(key);
    return false;
  }

  /** A key that is down when the focus goes is let go: nobody else will tell. */
  #letGo(): void {
    for (const name of this.#down.values()) this.#callbacks.keyboard()?.key({ name, event: "release" });
    this.#down.clear();
  }

  /** Chords that the terminal itself answers to; those of the page are caught before. */
  #ours(event: KeyboardEvent): boolean {
    const command = mac ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey;
    const letter = event.key.toLowerCase();
    if (!command || event.altKey) return false;
    if (letter === "v" && (mac || event.shiftKey)) return true; // the browser pastes: see #pasted
    const copies = letter === "c" && (mac || event.shiftKey || (!this.#callbacks.keyboard() && this.#term.hasSelection()));
    const step = SIZES[event.key];
    if (copies) this.copy();
    else if (step !== undefined) enlarge(step);
    else return false;
    event.preventDefault();
    return true;
  }

  /** Without the keyboard, arrows and pages read the scrollback. */
  #reads(event: KeyboardEvent): boolean {
    const { rows } = this.#term;
    if (event.ctrlKey || event.altKey || event.metaKey) return false;
    if (event.key === "PageUp") this.#term.scrollLines(1 - rows);
    else if (event.key === "PageDown") this.#term.scrollLines(rows - 1);
    else if (event.key === "ArrowUp") this.#term.scrollLines(-1);
    else if (event.key === "ArrowDown") this.#term.scrollLines(1);
    else if (event.key === "Home") this.#term.scrollToTop();
    else if (event.key === "End") this.#term.scrollToBottom();
    else return false;
    event.preventDefault();
    return true;
  }

  // -- everything else

  /** From xterm: text of an input method or of a phone's keyboard; or a report, which begins with a control character. */
  #data(data: string): void {
    const keyboard = this.#callbacks.keyboard();
    if (!keyboard) return;
    if (data === "\x7f") return keyboard.key({ name: "Backspace" });
    if (data === "\r" || data === "\n") return keyboard.key({ name: "Enter" });
    if (CONTROL.test(data)) return keyboard.raw(latin(data));
    if (this.sticky.length > 0 && [...data].length === 1) return this.#send({ name: data });
    keyboard.text(data);
  }

  #pasted(event: ClipboardEvent): void {
    event.preventDefault();
    event.stopImmediatePropagation();
    this.#callbacks.keyboard()?.paste(event.clipboardData?.getData("text/plain") ?? "");
  }

  #spend(): void {
    if (this.sticky.length === 0) return;
    this.sticky = [];
    this.unstick();
  }

  /** Remembers which mouse modes the program wants; xterm is in them only while the mouse is the program's. */
  #watchMouse(): void {
    const { parser } = this.#term;
    const track = (on: boolean) => (params: (number | number[])[]) => {
      if (params.includes(OWN)) return false;
      const found = MOUSE.filter((mode) => params.includes(mode));
      for (const mode of found) this.#mouse[on ? "add" : "delete"](mode);
      if (found.length > 0 && !this.#callbacks.keyboard()) this.refreshMouse();
      return false;
    };
    const forget = () => {
      this.#mouse.clear();
      return false;
    };
    this.#made.push(parser.registerCsiHandler({ prefix: "?", final: "h" }, track(true)));
    this.#made.push(parser.registerCsiHandler({ prefix: "?", final: "l" }, track(false)));
    this.#made.push(parser.registerEscHandler({ final: "c" }, forget));
  }

  /** xterm scrolls by wheel only. */
  #scrollByTouch(): void {
    let last = 0;
    let rest = 0;
    const options = { passive: true, signal: this.#stop.signal };
    const at = (event: TouchEvent) => event.touches[0]?.clientY ?? 0;
    this.#term.element?.addEventListener("touchstart", (event) => void ([last, rest] = [at(event), 0]), options);
    this.#term.element?.addEventListener(
      "touchmove",
      (event) => {
        const row = (this.#term.element?.clientHeight ?? 400) / this.#term.rows;
        rest += last - at(event);
        last = at(event);
        const lines = Math.trunc(rest / row);
        rest -= lines * row;
        if (lines !== 0) this.#term.scrollLines(lines);
      },
      options,
    );
  }
}

const SIZES: Record<string, -1 | 0 | 1> = { "+": 1, "=": 1, "-": -1, "0": 0 };

/** A key that types something: not one that only changes others. */
function types(key: KeyPress): boolean {
  return !/^(Shift|Control|Alt|Meta|CapsLock|NumLock|ScrollLock)/.test(key.name);
}

/** Each byte of the UTF-8 as one character. */
function latin(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text));
}
