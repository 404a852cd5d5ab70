// How many columns a character takes. Server, program and screen have to agree, else every line after an emoji is
// off: characters count one by one, as libghostty does it, until a program asks for whole graphemes (mode 2027).

import { UnicodeGraphemesAddon } from "@xterm/addon-unicode-graphemes";
import type { IUnicodeVersionProvider, Terminal } from "@xterm/xterm";
import { WIDE, ZERO } from "./widths_table";

const GRAPHEMES = 2027;
const ONE_BY_ONE = "ostler";

export function countAsServer(term: Terminal): void {
  term.loadAddon(new UnicodeGraphemesAddon());
  term.unicode.register(oneByOne);
  const count = (whole: boolean) => {
    term.unicode.activeVersion = whole ? "15-graphemes" : ONE_BY_ONE;
    return false;
  };
  const asked = (on: boolean) => (params: (number | number[])[]) => (params.includes(GRAPHEMES) ? count(on) : false);
  count(false);
  term.parser.registerCsiHandler({ prefix: "?", final: "h" }, asked(true));
  term.parser.registerCsiHandler({ prefix: "?", final: "l" }, asked(false));
  term.parser.registerEscHandler({ final: "c" }, () => count(false));
}

const oneByOne: IUnicodeVersionProvider = {
  version: ONE_BY_ONE,
  wcwidth: widthOf,
  charProperties(codepoint: number, preceding: number): number {
    const width = widthOf(codepoint);
    const before = (preceding >> 1) & 3; // xterm packs a width and whether to join like this
    return width === 0 && before > 0 ? (before << 1) | 1 : width << 1;
  },
};

function widthOf(codepoint: number): 0 | 1 | 2 {
  if (codepoint < 0x20 || (codepoint >= 0x7f && codepoint < 0xa0)) return 0;
  if (codepoint < 0x300) return isIn(zero, codepoint) ? 0 : 1;
  return isIn(zero, codepoint) ? 0 : isIn(wide, codepoint) ? 2 : 1;
}

const zero = ranges(ZERO);
const wide = ranges(WIDE);

/** Starts and ends, one after the other. */
function ranges(text: string): Uint32Array {
  let last = 0;
  const found = text.split(" ").flatMap((part) => {
    const [step = "", more = "0"] = part.split(".");
    const start = last + parseInt(step, 36);
    last = start + parseInt(more, 36);
    return [start, last];
  });
  return Uint32Array.from(found);
}

function isIn(table: Uint32Array, codepoint: number): boolean {
  let [low, high] = [0, table.length / 2 - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (codepoint < table[2 * middle]!) high = middle - 1;
    else if (codepoint > table[2 * middle + 1]!) low = middle + 1;
    else return true;
  }
  return false;
}
