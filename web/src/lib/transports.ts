// How turns are run, in words for people, and what of it the page has to know. Pure.

import { DIALOGS, WITH_OWN_TERMINAL } from "../transport_facts";
import type { AgentReport, SessionView, TerminalRow } from "../words";

export type Transport = NonNullable<SessionView["transport"]>;

export const MEANS: Record<Transport, string> = {
  pipe: "A process for each turn.",
  dialog: "One process for many turns; it can ask before it acts.",
  visible: "The agent's own command, in a terminal.",
  pty: "The agent's own screen, in a terminal: watch it, take it over.",
  tmux: "The agent's own screen, in a tmux pane.",
};

/** How the next turn of the session is run, if nobody says otherwise. */
export function transportOf(session: SessionView, report: AgentReport | null): Transport {
  return session.transport ?? (report?.dialog ? "dialog" : "pipe");
}

/** Whether the agent itself is to be seen: then its terminal is the main thing. */
export function isVisible(session: SessionView, terminals: TerminalRow[]): boolean {
  const { turn } = session;
  const running = turn !== null && turn.state !== "ended" ? turn.transport : session.transport;
  return WITH_OWN_TERMINAL.includes(running ?? "") || terminals.some((row) => row.tui && row.state === "live");
}

/** Whether its running turn can be told more, where the agent supports that. */
export function canBeSteered(session: SessionView): boolean {
  const { turn } = session;
  return turn !== null && DIALOGS.includes(turn.transport) && ["running", "asking"].includes(turn.state);
}

/** The person who has the keyboard of the agent's own screen: turns wait for them. */
export function heldBy(terminals: TerminalRow[]): string {
  return terminals.find((row) => row.tui && row.state === "live" && row.held_by !== "")?.held_by ?? "";
}
