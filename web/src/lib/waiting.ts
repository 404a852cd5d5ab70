// Why a turn waits for the pool, in one line.

import type { WaitingTurn } from "../api_types";

/** "place 2 · claude 3/3 busy"; of one that is about to start, only that. */
export function waitLine(waiting: Pick<WaitingTurn, "position" | "reason">): string {
  return waiting.position === 0 ? waiting.reason : `place ${waiting.position} · ${waiting.reason}`;
}

/** Of each session the turn that is next. */
export function nextOf(waiting: readonly WaitingTurn[]): Map<string, WaitingTurn> {
  const next = new Map<string, WaitingTurn>();
  for (const turn of waiting) {
    const known = next.get(turn.session);
    if (known === undefined || turn.position < known.position) next.set(turn.session, turn);
  }
  return next;
}
