// How a program ended, in words and as a state.

import type { Mark } from "../lib/icons";
import type { Exit, TerminalRow } from "../words";

const SIGNALS: Record<number, string> = { 1: "hung up", 2: "interrupted", 6: "aborted", 9: "killed", 11: "crashed", 13: "broken pipe", 15: "ended" };

const MEANT = [1, 2, 9, 15]; // signals by which somebody ends a program

export function ending(exit: Exit | null): { words: string; ok: boolean; mark: Mark } {
  // A shell, and many a program, tells by 128 and the signal's number what ended it.
  const told = (exit?.code ?? 0) - 128;
  if (MEANT.includes(told)) return { words: `${SIGNALS[told]}, exit ${exit?.code}`, ok: true, mark: "cancelled" };
  if (exit?.signal != null) {
    const meant = MEANT.includes(exit.signal);
    const words = `${SIGNALS[exit.signal] ?? "ended"} by signal ${exit.signal}`;
    return { words, ok: meant, mark: meant ? "cancelled" : "failed" };
  }
  if (exit?.code != null) return { words: `exit ${exit.code}`, ok: exit.code === 0, mark: exit.code === 0 ? "done" : "failed" };
  return { words: "exit status unknown", ok: true, mark: "unproven" };
}

/** A terminal's state as a shape. `busy`: output came just now. */
export function markOf(row: TerminalRow, busy: boolean): { mark: Mark; word: string } {
  if (row.state === "ended") {
    const { mark, words } = ending(row.exit);
    return { mark, word: `ended, ${words}` };
  }
  return busy || row.source === "turn" ? { mark: "busy", word: "busy" } : { mark: "idle", word: "live" };
}
