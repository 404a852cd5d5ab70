// A turn in a session of its own, as it is being written; the session is made when it is started.

import { api, asProblem, type NewSession, type Problem } from "../api";
import { keep, kept } from "../lib/kept";
import { randomId } from "../lib/random";
import { short } from "../lib/format";
import { page } from "../state.svelte";
import type { Access, SessionView } from "../words";
import { Attachments } from "./attachments.svelte";
import { readiness } from "./readiness";

export class NewTurn {
  prompt = $state("");
  agent = $state("");
  folder = $state("");
  access = $state<Access>("read");
  model = $state("");
  attachments = new Attachments();
  sending = $state(false);
  problem = $state.raw<Problem | null>(null);

  // A start that failed half-way is taken up again: no second session, no second turn.
  #made: { wanted: string; session: SessionView } | null = null;
  #key: { body: string; key: string } | null = null;

  /** Fills in what was used last, or what the server proposes, where nothing was chosen yet. */
  propose(): void {
    const { me, agents } = page;
    if (!this.folder && me) this.folder = kept("folder") ?? short(me.default_folder ?? me.home, me.home);
    if (this.agent || !agents) return;
    const ready = agents.filter((report) => readiness(report, me?.only ?? null).ready).map((report) => report.name);
    const wanted = [kept("agent"), me?.default_agent, ...ready.filter((name) => name !== "script"), ...ready];
    this.agent = wanted.find((name) => name && ready.includes(name)) ?? "";
  }

  get missing(): string {
    if (!page.connected) return "The server cannot be reached";
    if (!this.agent) return "Choose an agent";
    if (!this.folder.trim()) return "Choose a folder";
    if (!this.prompt.trim()) return "Write a prompt";
    if (this.attachments.sending) return "Files are still being sent";
    return "";
  }

  /** Returns the session in which it runs; null where it could not be started (`problem` says why). */
  async start(): Promise<string | null> {
    if (this.missing || this.sending) return null;
    this.sending = true;
    this.problem = null;
    try {
      const session = await this.#session();
      const transport = await page.transportOf(session.agent);
      const body = { prompt: this.prompt, attachments: this.attachments.refs, transport };
      await api.startTurn(session.id, body, this.#keyFor(JSON.stringify([session.id, body])));
      this.#started();
      return session.id;
    } catch (thrown) {
      this.problem = asProblem(thrown);
      return null;
    } finally {
      this.sending = false;
    }
  }

  async #session(): Promise<SessionView> {
    const folder = this.folder.trim().replace(/^~(?=\/|$)/, page.me?.home ?? "~");
    const body: NewSession = { agent: this.agent, folder, access: this.access };
    if (this.model.trim()) body.model = this.model.trim();
    const wanted = JSON.stringify(body);
    if (this.#made?.wanted !== wanted) this.#made = { wanted, session: await api.createSession(body) };
    return this.#made.session;
  }

  #keyFor(body: string): string {
    if (this.#key?.body !== body) this.#key = { body, key: randomId() };
    return this.#key.key;
  }

  #started(): void {
    keep("agent", this.agent);
    keep("folder", this.folder);
    this.prompt = "";
    this.attachments.clear();
    this.#made = null;
    this.#key = null;
  }
}

/** What is being written survives a look at another session. */
export const newTurn = new NewTurn();
