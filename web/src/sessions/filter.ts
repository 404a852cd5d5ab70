// Which sessions are shown, in which order. Pure.

import { active, ofSession, titleOf } from "../lib/marks";
import type { SessionView } from "../words";

export interface Group {
  name: "Asking" | "Busy" | "Queued" | "Earlier";
  sessions: SessionView[];
}

/** The sessions that a filter lets through, in groups, those that want a person first. */
export function grouped(sessions: Iterable<SessionView>, filter: string): Group[] {
  const wanted = matcher(filter);
  const groups: Group[] = (["Asking", "Busy", "Queued", "Earlier"] as const).map((name) => ({ name, sessions: [] }));
  for (const session of sessions) if (wanted(session)) groups[place(session)]?.sessions.push(session);
  for (const group of groups) group.sessions.sort((a, b) => since(b) - since(a));
  return groups.filter((group) => group.sessions.length > 0);
}

/** Words have to occur; `is:`, `agent:` and `in:` ask for a state, an agent, a folder. */
export function matcher(filter: string): (session: SessionView) => boolean {
  const terms = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return (session) => terms.every((term) => fits(session, term));
}

/** When what a row tells began: the running turn, or the end of the last one. */
export function since(session: SessionView): number {
  if (active(session)) return session.turn?.created_at ?? session.used_at;
  return session.turn?.ended_at ?? session.used_at;
}

const GROUPS = ["asking", "busy", "queued"];

function place(session: SessionView): number {
  const found = GROUPS.indexOf(session.state);
  return found < 0 ? 3 : found;
}

function fits(session: SessionView, term: string): boolean {
  const [, key, value = ""] = /^(is|agent|in):(.*)$/.exec(term) ?? [];
  if (key === "is") return states(session).some((word) => word.startsWith(value));
  if (key === "agent") return session.agent.startsWith(value);
  if (key === "in") return session.folder.toLowerCase().includes(value);
  return [titleOf(session), session.name ?? "", session.agent, session.folder, session.id, session.model ?? ""].some((text) =>
    text.toLowerCase().includes(term),
  );
}

function states(session: SessionView): string[] {
  const { mark, word } = ofSession(session);
  return [session.state, mark, word.replace(" ", "_"), session.turn?.error?.kind ?? ""].filter(Boolean);
}
