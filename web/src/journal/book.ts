// Events in, entries out: deltas grow into texts, a tool's end joins its start. Pure but for its own lists.

import type { AskOption, FileChange, JournalEvent, Outcome, PlanStep, Trouble, Usage } from "../words";

interface EntryBase {
  key: string;
  seq: number; // of its first event: the number in the gutter
  at: number;
  turn: string;
  quiet: boolean;
}

export type Prompt = EntryBase & { kind: "prompt"; agent: string; model: string | null };
export type Words = EntryBase & { kind: "text" | "thought"; id: string; text: string; whole: boolean; until: number };
export type Tool = EntryBase & {
  kind: "tool";
  id: string;
  name: string; // as the agent calls it
  category: string; // as ostler does: shell, read, edit …
  title: string;
  input: unknown;
  files: FileChange[];
  depth: number; // within how many calls of subagents it runs
  terminals: string[]; // that show it
  end: ToolEnd | null;
};
export interface ToolEnd {
  ok: boolean;
  output: string;
  diff: string;
  exit_code: number | null;
  duration_ms: number | null;
  denied: boolean;
  stopped: boolean; // it did not fail: the turn was cancelled while it ran
}
export type PlanEntry = EntryBase & { kind: "plan"; steps: PlanStep[] };
export type Ask = EntryBase & {
  kind: "ask";
  id: string;
  tool: string;
  category: string;
  title: string;
  input: unknown;
  diff: string;
  files: FileChange[];
  options: AskOption[];
  reason: string;
  expires: number | null; // then it is denied
  answer: { option: string; by: string; message: string; at: number } | null;
};
export type Limited = EntryBase & { kind: "limited"; error: string; message: string; attempt: number | null; retry: number | null };
export type Notice = EntryBase & { kind: "notice"; text: string; code: string };
export type Hook = EntryBase & { kind: "hook"; name: string; payload: unknown };
export type TerminalEntry = EntryBase & { kind: "terminal"; terminal: string; title: string; exit: number | null | undefined };
export type RawEntry = EntryBase & { kind: "raw"; lines: string[] };
export type End = EntryBase & { kind: "ended"; outcome: Outcome; error: Trouble | null };

export type Entry = Prompt | Words | Tool | PlanEntry | Ask | Limited | Notice | Hook | TerminalEntry | RawEntry | End;

type Unplaced = Entry extends infer E ? (E extends Entry ? Omit<E, keyof EntryBase> : never) : never;

/** What is known of a turn from its events alone, while it runs. */
export interface Progress {
  steps: PlanStep[];
  usage: Usage | null;
  cost: number | null;
  tools: number;
}

const NO_END: ToolEnd = { ok: false, output: "", diff: "", exit_code: null, duration_ms: null, denied: false, stopped: true };
/** Events by which an agent shows that it goes on after a call that failed. */
const GOES_ON = new Set(["text", "text_delta", "thought", "thought_delta", "tool_started", "plan"]);

export class Book {
  entries: Entry[] = [];
  last = 0; // the newest event that was taken in
  progress = new Map<string, Progress>();
  #places = new Map<string, number>(); // what goes on → its index: "turn/text/id", "turn/tool/id" …
  #turns = new Set<string>();
  #terminals = new Map<string, number>(); // a terminal may outlive its turn → its index
  #failing = new Map<string, string[]>(); // turn → its calls that ended badly, and nothing came after
  #links = new Map<string, string[]>(); // "turn/tool/id" → the terminals that show that call

  /** Takes events in, in order; those that were taken before are passed over. */
  add(events: JournalEvent[]): void {
    for (const event of events) {
      if (event.seq <= this.last) continue;
      this.last = event.seq;
      this.#take(event);
    }
  }

  #take(event: JournalEvent): void {
    if (event.turn && !this.#turns.has(event.turn)) this.#begin(event);
    if (GOES_ON.has(event.kind)) this.#failing.delete(event.turn);
    switch (event.kind) {
      case "started":
        return this.#started(event.turn, event.agent ?? "", event.model ?? null);
      case "text":
      case "thought":
        return this.#words(event, event.kind, event.text, event.id ?? "", true);
      case "text_delta":
        return this.#words(event, "text", event.text, event.id ?? "", false);
      case "thought_delta":
        return this.#words(event, "thought", event.text, event.id ?? "", false);
      case "tool_started":
        return this.#tool(event);
      case "tool_ended":
        return this.#toolEnd(event);
      case "plan":
        return this.#plan(event, event.steps);
      case "asked":
        return this.#push(`ask/${event.id}`, event, askOf(event));
      case "answered":
        return this.#change<Ask>(event.turn, `ask/${event.id}`, (ask) => ({
          ...ask, answer: { option: event.option, by: event.by, message: event.message ?? "", at: event.at },
        }));
      case "usage": {
        const progress = this.#progressOf(event.turn);
        this.progress.set(event.turn, { ...progress, usage: event.usage, cost: event.cost_usd ?? progress.cost });
        return;
      }
      case "limited":
        return this.#limited(event);
      case "notice":
        return this.#push("", event, { kind: "notice", text: event.text, code: event.code ?? "" });
      case "hook":
        return this.#push("", event, { kind: "hook", name: event.name, payload: event.payload });
      case "forwarded":
        return this.#push("", event, { kind: "notice", text: forwardedText(event), code: "forwarded" });
      case "terminal_opened":
        return this.#terminal(event);
      case "terminal_closed":
        return this.#changeTerminal(event.terminal, (entry) => ({ ...entry, exit: event.exit_code ?? null }));
      case "offered":
        return; // of use to who writes the next prompt, nothing to read
      case "ended":
        if (event.outcome === "cancelled") this.#stop(event.turn);
        return this.#push("", event, { kind: "ended", outcome: event.outcome, error: event.error ?? null });
      default:
        return this.#raw(event);
    }
  }

  #begin(event: JournalEvent): void {
    this.#turns.add(event.turn);
    this.#push("prompt", { ...event, quiet: false }, { kind: "prompt", agent: "", model: null });
  }

  #started(turn: string, agent: string, model: string | null): void {
    this.#change<Prompt>(turn, "prompt", (prompt) => ({ ...prompt, agent, model: model ?? prompt.model }));
  }

  #words(event: JournalEvent, kind: "text" | "thought", text: string, id: string, whole: boolean): void {
    const place = `${kind}/${id}`;
    const known = this.#entry<Words>(event.turn, place);
    if (known && !known.whole) {
      const grown = { ...known, text: whole ? text : known.text + text, whole, until: event.at };
      return this.#change<Words>(event.turn, place, () => grown);
    }
    this.#push(place, event, { kind, id, text, whole, until: event.at });
  }

  #tool(event: JournalEvent & { kind: "tool_started" }): void {
    const progress = this.#progressOf(event.turn);
    this.progress.set(event.turn, { ...progress, tools: progress.tools + 1 });
    const parent = event.parent ? this.#entry<Tool>(event.turn, `tool/${event.parent}`) : undefined;
    this.#push(`tool/${event.id}`, event, {
      kind: "tool", id: event.id, name: event.name, category: event.category || event.name, title: event.title ?? "", input: event.input,
      files: event.files ?? [], depth: parent ? parent.depth + 1 : 0, end: null,
      terminals: this.#links.get(`${event.turn}/tool/${event.id}`) ?? [],
    });
  }

  /** Told again once it is known whose it is: then the tool shows it, and no line of its own. */
  #terminal(event: JournalEvent & { kind: "terminal_opened" }): void {
    if (!this.#terminals.has(event.terminal)) {
      this.#terminals.set(event.terminal, this.entries.length);
      this.#push("", event, { kind: "terminal", terminal: event.terminal, title: event.title ?? "", exit: undefined });
    }
    if (!event.tool) return;
    const place = `tool/${event.tool}`;
    const terminals = [...new Set(this.#links.get(`${event.turn}/${place}`)).add(event.terminal)];
    this.#links.set(`${event.turn}/${place}`, terminals);
    this.#change<Tool>(event.turn, place, (tool) => ({ ...tool, terminals }));
    this.#changeTerminal(event.terminal, (entry) => ({ ...entry, quiet: true }));
  }

  #changeTerminal(id: string, change: (entry: TerminalEntry) => TerminalEntry): void {
    const index = this.#terminals.get(id);
    if (index !== undefined) this.entries[index] = change(this.entries[index] as TerminalEntry);
  }

  #toolEnd(event: JournalEvent & { kind: "tool_ended" }): void {
    const end: ToolEnd = {
      ok: event.ok ?? true, output: event.output ?? "", diff: event.diff ?? "",
      exit_code: event.exit_code ?? null, duration_ms: event.duration_ms ?? null, denied: event.denied ?? false, stopped: event.stopped ?? false,
    };
    if (!end.ok) this.#failing.set(event.turn, [...(this.#failing.get(event.turn) ?? []), event.id]);
    this.#change<Tool>(event.turn, `tool/${event.id}`, (tool) => ({
      ...tool, end, files: event.files?.length ? event.files : tool.files,
    }));
  }

  /** Its turn was cancelled: what ran then, or ended badly as the last that was heard, was stopped and did not fail. */
  #stop(turn: string): void {
    const failing = new Set(this.#failing.get(turn));
    for (const [index, entry] of this.entries.entries()) {
      if (entry.kind !== "tool" || entry.turn !== turn || (entry.end !== null && !failing.has(entry.id))) continue;
      this.entries[index] = { ...entry, end: { ...(entry.end ?? NO_END), stopped: true } };
    }
  }

  /** The plan is told whole each time: one entry a turn, which changes. */
  #plan(event: JournalEvent, steps: PlanStep[]): void {
    this.progress.set(event.turn, { ...this.#progressOf(event.turn), steps });
    if (this.#entry(event.turn, "plan")) this.#change<PlanEntry>(event.turn, "plan", (plan) => ({ ...plan, steps }));
    else this.#push("plan", event, { kind: "plan", steps });
  }

  /** Attempts of one hold-up are one entry. */
  #limited(event: JournalEvent & { kind: "limited" }): void {
    const told = {
      error: event.error ?? "limited", message: event.message ?? "", attempt: event.attempt ?? null,
      retry: event.retry_at ?? (event.retry_in != null ? event.at + event.retry_in : null),
    };
    const before = this.entries.at(-1);
    if (before?.kind === "limited" && before.error === told.error) this.entries[this.entries.length - 1] = { ...before, ...told };
    else this.#push("", event, { kind: "limited", ...told });
  }

  #raw(event: JournalEvent): void {
    const line = rawLine(event);
    const before = this.entries.at(-1);
    if (before?.kind === "raw" && before.turn === event.turn)
      this.entries[this.entries.length - 1] = { ...before, lines: [...before.lines, line] };
    else this.#push("", event, { kind: "raw", lines: [line] });
  }

  #push(place: string, event: JournalEvent, entry: Unplaced): void {
    if (place) this.#places.set(`${event.turn}/${place}`, this.entries.length);
    const key = `${event.seq}${entry.kind === "prompt" ? "p" : ""}`; // a prompt shares its number with what came first
    this.entries.push({ ...placed(event), key, ...entry });
  }

  #change<T extends Entry>(turn: string, place: string, change: (entry: T) => T): void {
    const index = this.#places.get(`${turn}/${place}`);
    if (index !== undefined) this.entries[index] = change(this.entries[index] as T);
  }

  #entry<T extends Entry>(turn: string, place: string): T | undefined {
    const index = this.#places.get(`${turn}/${place}`);
    return index === undefined ? undefined : (this.entries[index] as T);
  }

  #progressOf(turn: string): Progress {
    return this.progress.get(turn) ?? { steps: [], usage: null, cost: null, tools: 0 };
  }
}

/** An ask that nobody has answered yet. */
export function askOf(event: JournalEvent & { kind: "asked" }): Ask {
  return {
    ...placed(event), key: `${event.seq}`, kind: "ask", id: event.id, tool: event.tool, category: event.category || event.tool,
    title: event.title ?? "", input: event.input, diff: event.diff ?? "", files: event.files ?? [], options: event.options ?? [],
    reason: event.reason ?? "", expires: event.expires_at ?? null, answer: null,
  };
}

function placed({ seq, at, turn, quiet = false }: JournalEvent): Omit<EntryBase, "key"> {
  return { seq, at, turn, quiet };
}

function forwardedText(event: JournalEvent & { kind: "forwarded" }): string {
  const status = event.status ? ` (${event.status})` : "";
  return event.ok ? `The result was forwarded to ${event.to}${status}` : `Not forwarded to ${event.to}: ${event.answer ?? ""}`;
}

function rawLine(event: JournalEvent): string {
  if (event.kind === "raw" && event.line) return event.line;
  return JSON.stringify(event.kind === "raw" ? event.record : event);
}
