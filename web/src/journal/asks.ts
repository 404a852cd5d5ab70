// How an ask was answered, in words. Pure.

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
