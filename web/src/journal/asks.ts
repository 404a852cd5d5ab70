// How an ask was answered, in words, and as a mark on a time line. Pure.

import type { Ask } from "./book";
import { wished, type Wish } from "./tools";

export interface Said {
  allowed: boolean;
  word: string; // "Allowed"
  by: string; // " by you"
}

const WORDS: Record<string, string> = {
  allow_once: "Allowed",
  allow_always: "Allowed for this session",
  reject_once: "Denied",
  reject_always: "Denied for this session",
  cancelled: "Not answered",
};

/** `me`: the name of the one who reads it. */
export function outcome(answer: { option: string; by: string }, me: string): Said {
  const allowed = answer.option.startsWith("allow");
  const word = WORDS[answer.option] ?? (allowed ? "Allowed" : "Denied");
  return { allowed, word, by: by(answer, me) };
}

function by(answer: { option: string; by: string }, me: string): string {
  if (answer.option === "cancelled") return answer.by === "the agent" ? " (the agent took it back)" : " (the turn was ended)";
  if (answer.by === "time limit") return ": nobody answered in time";
  return ` by ${answer.by === me ? "you" : answer.by}`;
}

const LONGEST = 100; // characters of a gist

/** What is asked for, in a few words: the command, the files, or whatever it is called. */
export function gist(is: Wish): string {
  const said = is.command || is.diffs.map((diff) => diff.path).join(", ") || is.target;
  const line = said.split("\n", 1)[0] ?? "";
  return line.length > LONGEST || line.length < said.length ? `${line.slice(0, LONGEST)}…` : line;
}

export interface AskMark {
  at: number;
  until: number | null; // null: it is still open
  kind: "ask";
  outcome: "open" | "allowed" | "denied" | "dropped";
  says: string;
}

/** `over`: its turn has ended, so nobody can answer it any more. */
export function askMark(ask: Ask, over: boolean, folder: string, me: string): AskMark {
  const is = wished(ask, folder);
  const wish = [is.wish, gist(is)].filter(Boolean).join(": ");
  const mark = { at: ask.at, kind: "ask" as const };
  if (!ask.answer && !over) return { ...mark, until: null, outcome: "open", says: `asks to ${wish}` };
  if (!ask.answer) return { ...mark, until: ask.at, outcome: "dropped", says: `asked to ${wish}, and was not answered` };
  const { allowed, word, by: who } = outcome(ask.answer, me);
  const how = ask.answer.option === "cancelled" ? "dropped" : allowed ? "allowed" : "denied";
  return { ...mark, until: ask.answer.at, outcome: how, says: `asked to ${wish}. ${word}${who}` };
}
