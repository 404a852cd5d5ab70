// Which shape and which word stand for what a session or a turn is in. Pure.

import type { Mark } from "./icons";
import type { AskView, Outcome, SessionView, TurnView } from "../words";

export interface Standing {
  mark: Mark;
  word: string;
}

const OUTCOMES: Record<Outcome, Standing> = {
  done: { mark: "done", word: "done" },
  failed: { mark: "failed", word: "failed" },
  cancelled: { mark: "cancelled", word: "cancelled" },
  timed_out: { mark: "failed", word: "timed out" },
  unproven: { mark: "unproven", word: "unproven" },
  crashed: { mark: "failed", word: "crashed" },
};

const KINDS: Record<string, string> = {
  limited: "limited",
  overloaded: "overloaded",
  unauthenticated: "not logged in",
  missing: "not installed",
  over_budget: "over budget",
  invalid_output: "invalid output",
  denied: "denied",
};

export function ofOutcome(outcome: Outcome, kind = ""): Standing {
  const standing = OUTCOMES[outcome] ?? { mark: "idle", word: outcome };
  return outcome === "failed" && KINDS[kind] ? { ...standing, word: KINDS[kind] } : standing;
}

export function ofTurn(turn: TurnView): Standing {
  if (turn.outcome) return ofOutcome(turn.outcome, turn.error?.kind);
  if (turn.state === "asking") return { mark: "asking", word: "asking" };
  if (turn.state === "queued") return { mark: "queued", word: "queued" };
  return turn.state === "ended" ? { mark: "idle", word: "ended" } : { mark: "busy", word: "busy" };
}

export function ofSession(session: SessionView): Standing {
  switch (session.state) {
    case "asking":
      return { mark: "asking", word: "asking" };
    case "busy":
      return { mark: "busy", word: "busy" };
    case "queued":
      return { mark: "queued", word: "queued" };
    default:
      if (session.turn?.outcome) return ofTurn(session.turn);
      return session.state === "closed" ? { mark: "cancelled", word: "closed" } : { mark: "idle", word: "idle" };
  }
}

/** What it is about; its name is shown beside it, where it has one. */
export function titleOf(session: SessionView): string {
  return session.title || session.name || session.turn?.prompt.split("\n", 1)[0] || "New session";
}

export const active = (session: SessionView): boolean => ["asking", "busy", "queued"].includes(session.state);

/** An ask in one line: its command, or else the tool by its own name, and what it is about. */
export function askLine({ tool, category, title }: AskView): string {
  return category === "shell" || title === tool ? title : `${tool}: ${title}`;
}
