// The nouns of ostler as the server tells them (src/ostler/words.py). Fields with their default value may be absent.

export type Access = "read" | "write" | "full";
export type Rights = "view" | "type" | "admin";
export type Outcome = "done" | "failed" | "cancelled" | "timed_out" | "unproven" | "crashed";
export type TurnState = "queued" | "starting" | "running" | "asking" | "ended";
export type SessionState = "idle" | "queued" | "busy" | "asking" | "closed";

export interface Me {
  name: string;
  rights: Rights;
  version: string;
  pid: number;
  started_at: number;
  state_folder: string;
  home: string;
  only: string | null;
  default_agent: string | null;
  default_folder: string | null;
}

export interface Usage {
  input_tokens?: number | null;
  output_tokens?: number | null;
  cached_tokens?: number | null;
  reasoning_tokens?: number | null;
}

export interface Trouble {
  kind: string;
  message: string;
  hint?: string;
  retry_at?: number | null;
}

export interface Exit {
  code?: number | null;
  signal?: number | null;
}

export interface Denial {
  tool: string;
  target?: string;
  access?: Access | null;
  reason?: string;
}

export interface FileChange {
  path: string;
  change?: "add" | "update" | "delete" | "move";
}

export interface TurnView {
  id: string;
  session: string;
  state: TurnState;
  created_at: number;
  ended_at: number | null;
  prompt: string;
  access: Access;
  model: string | null;
  transport: "pipe" | "dialog" | "tty";
  outcome: Outcome | null;
  error: Trouble | null;
  summary: string;
  usage: Usage | null;
  cost_usd: number | null;
  duration_ms: number | null;
  artifacts: string[];
  evidence: string[];
}

/** The newest open ask of a session, in one line. */
export interface AskView {
  id: string;
  turn: string;
  tool: string;
  title: string;
  options: AskOption["kind"][];
  expires_at: number | null;
  whole: boolean; // the title is all that there is to it
}

export interface SessionView {
  id: string;
  agent: string;
  folder: string;
  created_at: number;
  used_at: number;
  name: string | null;
  served_by: string;
  agent_session: string | null;
  state: SessionState;
  access: Access;
  model: string | null;
  profile: string | null;
  system: string | null;
  turns: number;
  cost_usd: number | null;
  expires_at: number | null;
  title: string;
  primary: string | null;
  fork_of: string | null;
  turn: TurnView | null; // the running one, or else the last
  doing: string; // one line, while it is busy
  queued: number;
  live_terminals: number;
  ask: AskView | null;
  asks: number; // that are open
  primary_terminal: string | null;
}

export interface TerminalRow {
  id: string;
  session: string;
  name: string;
  source: "pty" | "turn" | "tmux" | "acp";
  cols: number;
  rows: number;
  created_at: number;
  state: "live" | "ended";
  argv: string[];
  folder: string;
  turn: string | null;
  typing: boolean;
  title: string;
  owner: string | null;
  pid: number | null;
  ended_at: number | null;
  exit: Exit | null;
  size: number;
  recording: string;
}

export interface AgentReport {
  name: string;
  title: string;
  installed: boolean;
  login: string; // yes, no, or what is not known
  install: string;
  path: string | null;
  version: string;
  keys_set: string[];
  withheld: string[];
  abilities: Record<string, string | boolean>;
  problem: string;
  dialog: boolean; // it can ask before it acts
  steer: boolean; // and be told more while it works
}

export interface Envelope {
  status: "ok" | "error";
  outcome: Outcome;
  summary: string;
  text: string;
  turn: string;
  session: string;
  agent: string;
  served_by: string;
  started_at: number;
  duration_ms: number;
  structured: unknown;
  denied: Denial[];
  artifacts: Record<string, string>;
  agent_session: string | null;
  name: string | null;
  model: string | null;
  folder: string;
  access: Access;
  usage: Usage | null;
  cost_usd: number | null;
  steps: number | null;
  exit: Exit | null;
  error: Trouble | null;
  evidence: string[];
  leaked: string[];
  files: FileChange[];
}

export interface PlanStep {
  text: string;
  status: "pending" | "active" | "done";
}

export interface AskOption {
  id: string;
  name: string;
  kind: "allow_once" | "allow_always" | "reject_once" | "reject_always";
}

export interface Offer {
  id: string;
  name?: string;
  description?: string;
}

interface Told {
  seq: number;
  at: number;
  turn: string;
  quiet?: boolean;
}

export type JournalEvent = Told &
  (
    | { kind: "started"; agent?: string; agent_session?: string | null; model?: string | null; folder?: string }
    | { kind: "text" | "text_delta" | "thought" | "thought_delta"; text: string; id?: string }
    | {
        kind: "tool_started";
        id: string;
        name: string;
        title?: string;
        input?: unknown;
        files?: FileChange[];
        parent?: string;
      }
    | {
        kind: "tool_ended";
        id: string;
        ok?: boolean;
        output?: string;
        diff?: string;
        files?: FileChange[];
        exit_code?: number | null;
        duration_ms?: number | null;
        denied?: boolean;
      }
    | { kind: "plan"; steps: PlanStep[] }
    | {
        kind: "asked";
        id: string;
        tool: string;
        title?: string;
        input?: unknown;
        diff?: string;
        files?: FileChange[];
        options?: AskOption[];
        reason?: string;
        expires_at?: number | null;
      }
    | { kind: "answered"; id: string; option: string; by: string }
    | { kind: "offered"; commands?: Offer[]; models?: Offer[]; modes?: Offer[]; model?: string; mode?: string }
    | { kind: "usage"; usage: Usage; cost_usd?: number | null }
    | {
        kind: "limited";
        error?: "limited" | "overloaded" | "unauthenticated";
        message?: string;
        attempt?: number | null;
        retry_at?: number | null;
        retry_in?: number | null;
      }
    | { kind: "notice"; text: string; code?: string }
    | { kind: "hook"; name: string; payload?: unknown }
    | { kind: "terminal_opened"; terminal: string; title?: string; tool?: string }
    | { kind: "terminal_closed"; terminal: string; exit_code?: number | null }
    | { kind: "raw"; record?: unknown; line?: string; stream?: "stdout" | "stderr" }
    | { kind: "ended"; outcome: Outcome; error?: Trouble | null }
  );
