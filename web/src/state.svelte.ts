// What the page knows: told by the server, kept in one place, read by every view.

import { SvelteMap } from "svelte/reactivity";
import { api, asProblem, loggedOut, type Problem } from "./api";
import type { LiveEvent, RunView } from "./api_types";
import { forgetDrafts } from "./journal/drafts.svelte";
import { go, here } from "./route.svelte";
import { live, type StreamConnection, type StreamEvent } from "./stream";
import { bells } from "./terminal/bells.svelte";
import type { AgentReport, Me, PlugInProblem, Rights, SessionView, TerminalRow } from "./words";

export type Pane = "sessions" | "journal" | "terminal";

const ORDER: Rights[] = ["view", "type", "admin"];

class Page {
  me = $state.raw<Me | null>(null);
  /** "unknown" until the server has answered for the first time. */
  login = $state<"unknown" | "in" | "out">("unknown");
  loginProblem = $state.raw<Problem | null>(null);
  sessions = new SvelteMap<string, SessionView>();
  terminals = new SvelteMap<string, TerminalRow>();
  /** Runs of pipelines. */
  runs = new SvelteMap<string, RunView>();
  agents = $state.raw<AgentReport[] | null>(null);
  unusableAgents = $state.raw<PlugInProblem[]>([]);
  agentsProblem = $state.raw<Problem | null>(null);
  link = $state.raw<StreamConnection>({ state: "connecting" });
  /** Everything that was there has been told once: "nothing" now means nothing. */
  ready = $state(false);
  /** On small screens one pane is shown at a time. */
  pane = $state<Pane>("journal");
  /** session → the terminal that a person chose to look at; none: the primary one is followed. */
  picked = new SvelteMap<string, string>();

  /** The session of the address, whether or not it is known yet. */
  get selected(): string | null {
    const { route } = here;
    if (route.view === "session") return route.id;
    if (route.view === "terminal") return this.terminals.get(route.id)?.session ?? null;
    return null;
  }

  get session(): SessionView | null {
    return this.selected === null ? null : (this.sessions.get(this.selected) ?? null);
  }

  get connected(): boolean {
    return this.link.state === "connected";
  }

  /** The connection was lost, or did not come about: not just the blink of the first one. */
  lost = $state(false);
  /** The server was updated since this page was loaded. */
  outdated = $state(false);

  /** How many asks wait for a person. */
  get asking(): number {
    let sum = 0;
    for (const { state, asks } of this.sessions.values()) if (state === "asking") sum += Math.max(1, asks);
    return sum;
  }

  /** How many gates of pipelines wait for a person, who can answer them: their machines can be reached. */
  get gates(): number {
    let sum = 0;
    for (const { state, gates, reachable } of this.runs.values()) if (state === "running" && reachable) sum += gates;
    return sum;
  }

  may(right: Rights): boolean {
    return this.me !== null && ORDER.indexOf(this.me.rights) >= ORDER.indexOf(right);
  }

  /** Whether a terminal of it rang, and nobody has looked yet. */
  rang(session: string): boolean {
    return bells.rung.some((terminal) => this.terminals.get(terminal)?.session === session);
  }

  /** Newest first. */
  terminalsOf(session: string): TerminalRow[] {
    return [...this.terminals.values()]
      .filter((row) => row.session === session)
      .sort((a, b) => b.created_at - a.created_at);
  }

  /** Brings a terminal into view: in the session's pane. */
  show(terminal: string): void {
    const row = this.terminals.get(terminal);
    if (row === undefined) return;
    this.picked.set(row.session, terminal);
    this.pane = "terminal";
    go({ view: "session", id: row.session, seq: null });
  }

  // -- getting in, and being told

  #seen = new Set<string>(); // told since the connection began

  async start(token: string | null): Promise<void> {
    loggedOut.tell = () => this.#leave();
    try {
      this.me = token === null ? await api.me() : await api.login(token);
      this.login = "in";
    } catch (thrown) {
      const problem = asProblem(thrown);
      if (token !== null && problem.status !== 0) return this.#afterBadLink(problem);
      if (problem.status === 401) return;
      this.login = "in"; // the server is away: the stream below says so, and tries again
    }
    this.#listen();
  }

  async logout(): Promise<void> {
    await api.logout();
    forgetDrafts();
    this.#leave();
  }

  retryNow(): void {
    live.retryNow();
  }

  /** What is known of the one who really serves: where `only` is set, that one plays all the others. */
  reportOf(agent: string): AgentReport | null {
    return this.agents?.find((report) => report.name === (this.me?.only || agent)) ?? null;
  }

  #agentsAsked: Promise<void> | null = null;

  /** Loads the agents, once for all who need them. */
  needAgents(): Promise<void> {
    if (this.agents !== null) return Promise.resolve();
    this.#agentsAsked ??= this.loadAgents().finally(() => (this.#agentsAsked = null));
    return this.#agentsAsked;
  }

  async loadAgents(refresh = false): Promise<void> {
    try {
      const found = await api.agents(refresh);
      this.agents = found.items;
      this.unusableAgents = found.problems;
      this.agentsProblem = null;
    } catch (thrown) {
      this.agentsProblem = asProblem(thrown);
    }
  }

  /** A used-up link does no harm to somebody who is in already. */
  async #afterBadLink(problem: Problem): Promise<void> {
    try {
      this.me = await api.me();
      this.login = "in";
      this.#listen();
    } catch {
      this.loginProblem = problem;
      this.login = "out";
    }
  }

  #leave(): void {
    live.close();
    this.login = "out";
    this.me = null;
    this.ready = false;
    this.sessions.clear();
    this.runs.clear();
    for (const id of [...this.terminals.keys()]) this.#forget(id);
  }

  #listen(): void {
    live.open({
      link: (link) => {
        this.link = link;
        if (link.state !== "connecting") this.lost = link.state === "retrying";
      },
      begin: () => this.#seen.clear(),
      event: (event) => this.#take(event),
      refused: () => this.#leave(),
    });
  }

  #take({ kind, data }: StreamEvent): void {
    const told = { event: kind, data: JSON.parse(data) } as LiveEvent;
    switch (told.event) {
      case "hello":
        this.outdated ||= this.me !== null && this.me.version !== told.data.version;
        this.me = told.data;
        break;
      case "session":
        this.#seen.add(told.data.id);
        this.sessions.set(told.data.id, told.data);
        break;
      case "terminal":
        this.#seen.add(told.data.id);
        this.#learn(told.data);
        break;
      case "run":
        this.#seen.add(told.data.id);
        this.runs.set(told.data.id, told.data);
        break;
      case "gone":
        this.#forget(told.data.id);
        break;
      case "ready":
        this.#forgetUnseen();
        this.ready = true;
    }
  }

  /** What rang before this page was there has been heard by somebody else. */
  #learn(row: TerminalRow): void {
    const before = this.terminals.get(row.id)?.bells ?? (this.ready ? 0 : row.bells);
    this.terminals.set(row.id, row);
    if (row.bells > before) bells.ring(row.id);
  }

  #forgetUnseen(): void {
    for (const id of [...this.sessions.keys(), ...this.terminals.keys(), ...this.runs.keys()]) if (!this.#seen.has(id)) this.#forget(id);
  }

  #forget(id: string): void {
    this.sessions.delete(id);
    this.terminals.delete(id);
    this.runs.delete(id);
    bells.look(id);
    this.picked.delete(id);
  }
}

export const page = new Page();
export { page as state };
