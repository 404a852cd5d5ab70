// The REST contract, typed. Every failure is a Problem: what failed, and what to do next.

import type {
  AgentReport,
  Access,
  Envelope,
  JournalEvent,
  Me,
  Rights,
  SessionView,
  TerminalRow,
  TurnView,
} from "./words";

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    message: string,
    readonly hint = "",
    readonly retryAt: number | null = null,
  ) {
    super(message);
  }
}

export type AttachmentRef = { upload: string } | { path: string } | { name: string; content: string };

export interface NewSession {
  agent: string;
  folder: string;
  access?: Access;
  model?: string;
  name?: string;
  system?: string;
}

export interface NewTurn {
  prompt: string;
  access?: Access;
  model?: string;
  attachments?: AttachmentRef[];
  wait?: boolean;
  command?: boolean;
  transport?: "pipe" | "dialog";
}

export interface NewTerminal {
  session: string;
  argv: string[];
  folder?: string;
  env?: Record<string, string>;
  cols?: number;
  rows?: number;
  name?: string;
  primary?: boolean;
}

export interface Folders {
  path: string;
  parent: string | null;
  folders: string[];
}

export type AnswerWord = "allow" | "deny" | "always" | "never";

type Items<T> = { items: T[] };

export const api = {
  login: (token: string) => call<Me>("POST", "/api/login", { token }),
  logout: () => call<void>("POST", "/api/logout", {}),
  me: () => call<Me>("GET", "/api/me"),
  link: (rights: Rights, name: string) =>
    call<{ url: string; expires_at: number }>("POST", "/api/links", { rights, name }),
  agents: (refresh = false) => items<AgentReport>(`/api/agents${refresh ? "?refresh=true" : ""}`),
  folders: (at: string) => call<Folders>("GET", `/api/folders${query({ at })}`),

  sessions: () => items<SessionView>("/api/sessions"),
  session: (id: string) => call<SessionView>("GET", at`/api/sessions/${id}`),
  createSession: (body: NewSession) => call<SessionView>("POST", "/api/sessions", body),
  deleteSession: (id: string) => call<void>("DELETE", at`/api/sessions/${id}`),
  fork: (id: string, name?: string) => call<SessionView>("POST", at`/api/sessions/${id}/fork`, name ? { name } : {}),
  setPrimary: (id: string, terminal: string | null) =>
    call<SessionView>("PUT", at`/api/sessions/${id}/primary`, { terminal }),

  turns: (session: string) => items<TurnView>(at`/api/sessions/${session}/turns`),
  startTurn: (session: string, body: NewTurn, key: string) =>
    call<TurnView>("POST", at`/api/sessions/${session}/turns`, body, { "Idempotency-Key": key }),
  cancelTurn: (id: string) => call<TurnView>("POST", at`/api/turns/${id}/cancel`, {}),
  answer: (turn: string, ask: string, option: AnswerWord, message = "") =>
    call<void>("POST", at`/api/turns/${turn}/answer`, { ask, option, message }),
  steer: (turn: string, text: string) => call<void>("POST", at`/api/turns/${turn}/steer`, { text }),
  envelope: (id: string) => call<Envelope>("GET", at`/api/turns/${id}/envelope`),
  artifact: (id: string, name: string) => text(artifactAddress(id, name)),
  events: (session: string, after: number, limit: number) =>
    call<{ items: JournalEvent[]; last: number }>(
      "GET",
      at`/api/sessions/${session}/events` + query({ after: String(after), limit: String(limit) }),
    ),

  terminals: (session?: string) => items<TerminalRow>(`/api/terminals${query(session ? { session } : {})}`),
  terminal: (id: string) => call<TerminalRow>("GET", at`/api/terminals/${id}`),
  openTerminal: (body: NewTerminal) => call<TerminalRow>("POST", "/api/terminals", body),
  killTerminal: (id: string) => call<void>("POST", at`/api/terminals/${id}/kill`, {}),
  releaseTerminal: (id: string) => call<void>("DELETE", at`/api/terminals/${id}`),
  recording: (id: string) => text(at`/api/terminals/${id}/recording`),

  upload: (file: Blob, name: string) =>
    send<{ upload: string; name: string; size: number }>("PUT", at`/api/uploads/${name}`, file, {
      "Content-Type": "application/octet-stream",
    }),
};

export function artifactAddress(turn: string, name: string): string {
  return at`/api/turns/${turn}/artifacts/${name}`;
}

/** Called when the server no longer knows us: the page shows how to log in. */
export const loggedOut = { tell: () => {} };

// -- what all of it goes through

function call<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
  if (body === undefined) return send<T>(method, path, undefined, headers);
  return send<T>(method, path, JSON.stringify(body), { "Content-Type": "application/json", ...headers });
}

async function items<T>(path: string): Promise<T[]> {
  return (await call<Items<T>>("GET", path)).items;
}

async function text(path: string): Promise<string> {
  return (await request("GET", path, undefined, { Accept: "*/*" })).text();
}

async function send<T>(method: string, path: string, body: BodyInit | undefined, headers: Record<string, string>) {
  const answer = await request(method, path, body, { Accept: "application/json", ...headers });
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

async function request(
  method: string,
  path: string,
  body: BodyInit | undefined,
  headers: Record<string, string>,
): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, { method, body, headers, credentials: "same-origin", cache: "no-store" });
  } catch {
    throw new Problem(0, "unreachable", "The server does not answer", "Is it running? Start it with: ostler up");
  }
  if (answer.ok) return answer;
  throw await problem(answer);
}

/** The problem that an answer which is not ok tells of. */
export async function problem(answer: Response): Promise<Problem> {
  if (answer.status === 401 && !answer.url.endsWith("/api/login")) loggedOut.tell();
  let told: { kind?: string; detail?: string; title?: string; hint?: string; retry_at?: number | null } = {};
  try {
    told = await answer.json();
  } catch {
    // not from ostler: the status has to do
  }
  const message = told.detail || told.title || `The server answered ${answer.status}`;
  return new Problem(answer.status, told.kind ?? "", message, told.hint ?? "", told.retry_at ?? null);
}

/** Any thrown thing as a Problem, for showing. */
export function asProblem(thrown: unknown): Problem {
  if (thrown instanceof Problem) return thrown;
  return new Problem(0, "", thrown instanceof Error ? thrown.message : String(thrown));
}

function at(parts: TemplateStringsArray, ...values: string[]): string {
  return parts.reduce((path, part, i) => path + encodeURIComponent(values[i - 1] ?? "") + part);
}

function query(values: Record<string, string>): string {
  const text = new URLSearchParams(values).toString();
  return text ? `?${text}` : "";
}
