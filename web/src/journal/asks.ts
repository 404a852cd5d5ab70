// How an ask was answered, in words, and as a mark on a time line. Pure.

import type { Ask } from "./book";
import { describeAsk, type AskDescription } from "./tools";

export interface AnswerSummary {
  allowed: boolean;
  word: string; // "Allowed"
  by: string; // " by you"
  why: string; // what somebody said to it
}

const TIME_LIMIT = "time limit";
const WORDS: Record<string, string> = {
  allow_once: "Allowed",
  allow_always: "Allowed for this session",
  reject_once: "Denied",
  reject_always: "Denied for this session",
  cancelled: "Not answered",
};

/** `me`: the name of the one who reads it. */
export function outcome(answer: { option: string; by: string; message: string }, me: string): AnswerSummary {
  const allowed = answer.option.startsWith("allow");
  const word = WORDS[answer.option] ?? (allowed ? "Allowed" : "Denied");
  const why = answer.by === TIME_LIMIT ? "" : answer.message; // `by` says it all
  return { allowed, word, by: by(answer, me), why };
}

function by(answer: { option: string; by: string }, me: string): string {
  if (answer.option === "cancelled") return answer.by === "the agent" ? " (the agent took it back)" : " (the turn was ended)";
  if (answer.by === TIME_LIMIT) return ": nobody answered in time";
  return ` by ${answer.by === me ? "you" : answer.by}`;
}

const LONGEST = 100; // characters of a gist

/** What is asked for, in a few words: the command, the files, or what it is called and about. */
export function gist(is: AskDescription, tool: string): string {
  const said = is.command || is.diffs.map((diff) => diff.path).join(", ") || `${tool} ${is.what}`.trim();
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
  const is = describeAsk(ask, folder);
  const action = [is.action, gist(is, ask.tool)].filter(Boolean).join(": ");
  const mark = { at: ask.at, kind: "ask" as const };
  if (!ask.answer && !over) return { ...mark, until: null, outcome: "open", says: `asks to ${action}` };
  if (!ask.answer) return { ...mark, until: ask.at, outcome: "dropped", says: `asked to ${action}, and was not answered` };
  const { allowed, word, by: who } = outcome(ask.answer, me);
  const how = ask.answer.option === "cancelled" ? "dropped" : allowed ? "allowed" : "denied";
  return { ...mark, until: ask.answer.at, outcome: how, says: `asked to ${action}. ${word}${who}` };
}
