// The REST contract, typed. Every failure is a Problem: what failed, and what to do next.

import type {
  AgentList,
  AskRow,
  AttachmentRequest,
  Envelope,
  Folders,
  GateAnswer,
  Link,
  LinkRequest,
  Me,
  MoveRequest,
  NewAnswer,
  NewRun,
  NewSession,
  NewTerminal,
  NodeDetail,
  PipelineSource,
  PipelineView,
  QueueView,
  NewTurn,
  ProblemAnswer,
  RunForkRequest,
  RunView,
  SessionView,
  TerminalRow,
  TurnView,
  Upload,
} from "./api_types";
import type { JournalEvent, Rights } from "./words";

export type { NewSession, NewTurn };

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

export type AttachmentRef = AttachmentRequest;
export type AnswerWord = "allow" | "deny" | "always" | "never";

type Items<T> = { items: T[] };

// How long an answer is waited for, in seconds. What a person does is told within seconds that it did not go out.
const SOON = 10;
const SLOW = 60; // where the server asks somebody else, or the answer is long
const LEAST_SPEED = 30_000; // bytes a second of an upload that still counts as moving

export const api = {
  login: (token: string) => call<Me>("POST", "/api/login", { token }),
  logout: () => call<void>("POST", "/api/logout", {}),
  me: () => call<Me>("GET", "/api/me", undefined, {}, SOON),
  link: (rights: Rights, name: string) =>
    call<Link>("POST", "/api/links", { rights, name } satisfies LinkRequest),
  agents: (refresh = false) => call<AgentList>("GET", `/api/agents${refresh ? "?refresh=true" : ""}`),
  agentsIn: (folder: string) => call<AgentList>("GET", `/api/agents${query({ folder })}`),
  folders: (at: string) => call<Folders>("GET", `/api/folders${query({ at })}`),

  queue: () => call<QueueView>("GET", "/api/queue"),

  pipelines: () => items<PipelineView>("/api/pipelines"),
  checkPipeline: (body: PipelineSource) => call<PipelineView>("POST", "/api/pipelines/check", body),
  startRun: (body: NewRun) => call<RunView>("POST", "/api/runs", body, {}, SLOW),
  run: (id: string) => call<RunView>("GET", at`/api/runs/${id}`),
  runNode: (id: string, node: string) => call<NodeDetail>("GET", at`/api/runs/${id}/nodes/${node}`),
  answerGate: (id: string, node: string, body: GateAnswer) => call<RunView>("POST", at`/api/runs/${id}/nodes/${node}/answer`, body, {}, SLOW),
  cancelRun: (id: string) => call<RunView>("POST", at`/api/runs/${id}/cancel`, {}),
  resumeRun: (id: string) => call<RunView>("POST", at`/api/runs/${id}/resume`, {}, {}, SLOW),
  forkRun: (id: string, body: RunForkRequest) => call<RunView>("POST", at`/api/runs/${id}/fork`, body, {}, SLOW),

  sessions: () => items<SessionView>("/api/sessions"),
  session: (id: string) => call<SessionView>("GET", at`/api/sessions/${id}`),
  createSession: (body: NewSession) => call<SessionView>("POST", "/api/sessions", body),
  deleteSession: (id: string) => call<void>("DELETE", at`/api/sessions/${id}`, undefined, {}, SLOW),
  fork: (id: string, name?: string) => call<SessionView>("POST", at`/api/sessions/${id}/fork`, name ? { name } : {}, {}, SLOW),
  hand: (id: string, agent: string) => call<SessionView>("POST", at`/api/sessions/${id}/hand`, { agent, wait: true }, {}, SLOW),
  move: (id: string, transport: MoveRequest["transport"], midTurn: MoveRequest["mid_turn"]) =>
    call<SessionView>("POST", at`/api/sessions/${id}/move`, { transport, mid_turn: midTurn } satisfies MoveRequest, {}, SLOW),
  setPrimary: (id: string, terminal: string | null) =>
    call<SessionView>("PUT", at`/api/sessions/${id}/primary`, { terminal }),

  turns: (session: string) => items<TurnView>(at`/api/sessions/${session}/turns`),
  startTurn: (session: string, body: NewTurn, key: string) =>
    call<TurnView>("POST", at`/api/sessions/${session}/turns`, body, { "Idempotency-Key": key }),
  cancelTurn: (id: string) => call<TurnView>("POST", at`/api/turns/${id}/cancel`, {}),
  answer: (turn: string, ask: string, option: AnswerWord, message = "") =>
    call<void>("POST", at`/api/turns/${turn}/answer`, { ask, option, message } satisfies NewAnswer),
  steer: (turn: string, text: string) => call<void>("POST", at`/api/turns/${turn}/steer`, { text }),
  envelope: (id: string) => call<Envelope>("GET", at`/api/turns/${id}/envelope`),
  artifact: (id: string, name: string) => text(artifactAddress(id, name)),
  /** The last events before this one, in order: none where it is the first. */
  eventsBefore: (session: string, before: number, limit: number) =>
    items<JournalEvent>(at`/api/sessions/${session}/events` + query({ before: String(before), limit: String(limit) })),
  /** What a session asked since then, answered or not, the oldest first. */
  asksSince: (session: string, since: number) =>
    items<AskRow>(at`/api/sessions/${session}/asks` + query({ since: String(since), limit: "1000" })),

  terminals: (session?: string) => items<TerminalRow>(`/api/terminals${query(session ? { session } : {})}`),
  terminal: (id: string) => call<TerminalRow>("GET", at`/api/terminals/${id}`),
  openTerminal: (body: NewTerminal) => call<TerminalRow>("POST", "/api/terminals", body),
  killTerminal: (id: string) => call<void>("POST", at`/api/terminals/${id}/kill`, {}),
  releaseTerminal: (id: string) => call<void>("DELETE", at`/api/terminals/${id}`),
  recording: (id: string) => text(at`/api/terminals/${id}/recording`),

  upload: (file: Blob, name: string) =>
    send<Upload>(
      "PUT", at`/api/uploads/${name}`, file, { "Content-Type": "application/octet-stream" }, SLOW + file.size / LEAST_SPEED,
    ),
};

export function artifactAddress(turn: string, name: string): string {
  return at`/api/turns/${turn}/artifacts/${name}`;
}

/** Called when the server no longer knows us: the page shows how to log in. */
export const loggedOut = { tell: () => {} };

// -- what all of it goes through

type Headers = Record<string, string>;

function call<T>(method: string, path: string, body?: unknown, headers: Headers = {}, patience?: number): Promise<T> {
  if (body === undefined) return send<T>(method, path, undefined, headers, patience);
  return send<T>(method, path, JSON.stringify(body), { "Content-Type": "application/json", ...headers }, patience);
}

async function items<T>(path: string): Promise<T[]> {
  return (await call<Items<T>>("GET", path)).items;
}

function text(path: string): Promise<string> {
  return request("GET", path, undefined, { Accept: "*/*" }, (answer) => answer.text());
}

function send<T>(method: string, path: string, body: BodyInit | undefined, headers: Headers, patience?: number) {
  const read = async (answer: Response) => (answer.status === 204 ? undefined : await answer.json()) as T;
  return request(method, path, body, { Accept: "application/json", ...headers }, read, patience);
}

async function request<T>(
  method: string,
  path: string,
  body: BodyInit | undefined,
  headers: Headers,
  read: (answer: Response) => Promise<T>,
  patience = method === "GET" ? SLOW : SOON,
): Promise<T> {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(new DOMException("", "TimeoutError")), patience * 1000);
  try {
    const answer = await fetch(path, { method, body, headers, credentials: "same-origin", cache: "no-store", signal: stop.signal });
    if (!answer.ok) throw await problem(answer);
    return await read(answer);
  } catch (thrown) {
    throw thrown instanceof Problem ? thrown : unanswered(stop.signal.aborted, method, patience);
  } finally {
    clearTimeout(timer);
  }
}

function unanswered(tooLate: boolean, method: string, patience: number): Problem {
  if (!tooLate) return new Problem(0, "unreachable", "The server is not responding", "Is it running? Start it with: ostler up");
  const hint = method === "GET" ? "Try again" : "The request may have gone through anyway: check before you try again";
  return new Problem(0, "timed_out", `The server has not answered for ${Math.round(patience)} seconds`, hint);
}

/** The problem that an answer which is not ok tells of. */
export async function problem(answer: Response): Promise<Problem> {
  if (answer.status === 401 && !answer.url.endsWith("/api/login")) loggedOut.tell();
  let told: Partial<ProblemAnswer> = {};
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
