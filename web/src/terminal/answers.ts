// A program asks its terminal questions, and the server answers them, once. xterm would answer too, in every
// browser that watches: here its answers are swallowed before it sees the question.

import type { IDisposable, Terminal } from "@xterm/xterm";

/** Control sequences that are questions, or that ask for something a viewer must not do. */
const CSI = [
  { final: "c" }, // DA1
  { prefix: ">", final: "c" }, // DA2
  { prefix: "=", final: "c" }, // DA3
  { final: "n" }, // DSR, CPR
  { prefix: "?", final: "n" },
  { prefix: ">", final: "n" },
  { intermediates: "$", final: "p" }, // DECRQM
  { prefix: "?", intermediates: "$", final: "p" },
  { prefix: ">", final: "q" }, // XTVERSION
  { final: "t" }, // sizes, titles and manipulation of windows
  { prefix: ">", final: "t" },
  { final: "x" }, // DECREQTPARM
  { intermediates: "*", final: "y" }, // DECRQCRA
  { intermediates: "$", final: "w" }, // DECRQPSR
  { intermediates: "&", final: "u" }, // DECRQUPSS
  { prefix: "?", final: "u" }, // kitty keyboard: asked, pushed, popped, set
  { prefix: ">", final: "u" },
  { prefix: "<", final: "u" },
  { prefix: "=", final: "u" },
  { prefix: "?", final: "m" }, // XTQMODKEYS
  { prefix: "?", final: "S" }, // XTSMGRAPHICS
] as const;

const DCS = [
  { intermediates: "$", final: "q" }, // DECRQSS
  { intermediates: "+", final: "q" }, // XTGETTCAP
] as const;

const COLOURS = [4, 5, 10, 11, 12, 13, 14, 17, 19]; // OSC: a "?" in place of a colour is a question
const CLIPBOARD = 52;

export function leaveAnswersToServer(term: Terminal): IDisposable {
  const swallow = () => true;
  const asks = (data: string) => data.split(";").includes("?");
  const made = [
    ...CSI.map((id) => term.parser.registerCsiHandler(id, swallow)),
    ...DCS.map((id) => term.parser.registerDcsHandler(id, swallow)),
    ...COLOURS.map((code) => term.parser.registerOscHandler(code, asks)),
    term.parser.registerOscHandler(CLIPBOARD, swallow), // no program reads or writes a reader's clipboard
  ];
  return { dispose: () => made.forEach((one) => one.dispose()) };
}
