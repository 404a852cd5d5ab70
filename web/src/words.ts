// The nouns of ostler as the page calls them. What they look like is generated of the server's own (api_types.ts).

import type { AnyEvent, Me, SessionView, TurnView } from "./api_types";

export type {
  AgentList,
  AgentReport,
  AskOption,
  AskRow,
  AskView,
  Envelope,
  Exit,
  FileChange,
  Me,
  PlanStep,
  PlugInProblem,
  Problem as Trouble, // an error that is told, beside one that is thrown (api.ts)
  ProfileView,
  SessionView,
  TerminalRow,
  TurnView,
  Usage,
} from "./api_types";

export type Access = SessionView["access"];
export type Rights = Me["rights"];
export type Outcome = NonNullable<TurnView["outcome"]>;

/** Fields with their default value may be absent. */
export type JournalEvent = AnyEvent;
