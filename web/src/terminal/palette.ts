// The terminal's colours, from the `--term-*` tokens: the same in both themes, as the server told the program.

import type { ITheme } from "@xterm/xterm";

export interface Palette extends ITheme {
  ansi: string[]; // all 256
  foreground: string;
  background: string;
  dim: string;
  cursor: string;
}

let made: Palette | undefined;

export function palette(): Palette {
  return (made ??= read());
}

function read(): Palette {
  const style = getComputedStyle(document.documentElement);
  const token = (name: string, otherwise: string) => style.getPropertyValue(`--term-${name}`).trim() || otherwise;
  const background = token("bg", "#100f0e");
  const white = token("white", "#f4f1ed");
  const dim = token("dim", "#8b857e");
  const foreground = token("fg", "#d9d5cf");
  const hues = {
    red: token("red", "#f5857a"),
    green: token("green", "#8ccf9a"),
    yellow: token("yellow", "#ecc06a"),
    blue: token("blue", "#86b2f5"),
    magenta: token("magenta", "#d3a2ef"),
    cyan: token("cyan", "#6fcfdc"),
  };
  const bright = Object.values(hues).map((hue) => lighter(hue));
  const named = ["#3a3733", ...Object.values(hues), foreground, dim, ...bright, white];
  return {
    background,
    foreground,
    dim,
    ...hues,
    black: named[0],
    white: foreground,
    brightBlack: dim,
    brightRed: bright[0],
    brightGreen: bright[1],
    brightYellow: bright[2],
    brightBlue: bright[3],
    brightMagenta: bright[4],
    brightCyan: bright[5],
    brightWhite: white,
    cursor: token("cursor", "#ede9e3"),
    cursorAccent: background,
    selectionBackground: token("sel", "#b0a4ff40"),
    selectionInactiveBackground: "#b0a4ff26",
    scrollbarSliderBackground: "#ffffff1f",
    scrollbarSliderHoverBackground: "#ffffff33",
    scrollbarSliderActiveBackground: "#ffffff4d",
    overviewRulerBorder: "#00000000",
    ansi: [...named, ...cube(), ...greys()],
  };
}

/** The way a quarter to white: bold and bright stay told apart from plain. */
function lighter(hex: string): string {
  const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return `#${parts.map((part) => byte(Math.round(part + (255 - part) * 0.3))).join("")}`;
}

function cube(): string[] {
  const steps = [0, 95, 135, 175, 215, 255];
  return steps.flatMap((r) => steps.flatMap((g) => steps.map((b) => `#${byte(r)}${byte(g)}${byte(b)}`)));
}

function greys(): string[] {
  return Array.from({ length: 24 }, (_, i) => `#${byte(8 + i * 10).repeat(3)}`);
}

function byte(value: number): string {
  return value.toString(16).padStart(2, "0");
}
