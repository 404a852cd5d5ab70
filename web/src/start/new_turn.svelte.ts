// A turn in a session of its own, as it is being written; the session is made when it is started.

import { api, asProblem, type NewSession, type NewTurn, type Problem } from "../api";
import { draftOf } from "../journal/drafts.svelte";
import { keep, kept } from "../lib/kept";
import { randomId } from "../lib/random";
import { short } from "../lib/format";
import type { Transport } from "../lib/transports";
import { page } from "../state.svelte";
import type { Access, AgentList, AgentReport, ProfileView, SessionView } from "../words";
import type { Attachments } from "./attachments.svelte";
import { readiness } from "./readiness";

export class NewTurnForm {
  draft = draftOf("new"); // its prompt, its access and its files: kept when the page is loaded again
  agent = $state("");
  folder = $state("");
  model = $state("");
  #transport = $state<Transport | null>(null);
  sending = $state(false);
  problem = $state.raw<Problem | null>(null);
  offered = $state.raw<AgentList | null>(null); // what the settings of the folder know; null: not known (yet)

  // A start that failed half-way is taken up again: no second session, no second turn.
  #made: { wanted: string; session: SessionView } | null = null;
  #key: { body: string; key: string } | null = null;
  #looks = 0;

  get access(): Access {
    return this.draft.access ?? "read";
  }

  set access(access: Access) {
    this.draft.access = access;
  }

  /** What is known of the agent that would serve it. */
  get report(): AgentReport | null {
    return page.reportOf(this.profile?.agent || this.agent);
  }

  /** How the session's turns can be run, as far as that is known. */
  get transports(): Transport[] {
    return this.report?.transports ?? [];
  }

  /** What was chosen, if the agent that is chosen now has it; null: the best for somebody who is there to answer. */
  get transport(): Transport | null {
    return this.#transport !== null && this.transports.includes(this.#transport) ? this.#transport : null;
  }

  set transport(transport: Transport | null) {
    this.#transport = transport;
  }

  get attachments(): Attachments {
    return this.draft.attachments;
  }

  /** Fills in what was used last, or what the server proposes, where nothing was chosen yet. */
  propose(): void {
    const { me, agents } = page;
    if (!this.folder && me) this.folder = kept("folder") ?? short(me.default_folder ?? me.home, me.home);
    if (this.agent || !agents) return;
    const able = (this.offered?.items ?? agents).filter((report) => readiness(report, me?.only ?? null).ready);
    const ready = able.toSorted((a, b) => Number(a.built_in) - Number(b.built_in)).map((report) => report.name);
    const profiles = this.profiles.map((profile) => profile.name);
    const wanted = [kept("agent"), this.offered?.default_agent || me?.default_agent, ...ready];
    this.agent = wanted.find((name) => name && (ready.includes(name) || profiles.includes(name))) ?? "";
  }

  /** Those that somebody could take a turn with. */
  get profiles(): ProfileView[] {
    return this.offered?.profiles.filter((profile) => profile.agent) ?? [];
  }

  get profile(): ProfileView | null {
    return this.profiles.find((profile) => profile.name === this.agent) ?? null;
  }

  /** A profile may say what it may do; who starts it can still change that. */
  choose(profile: ProfileView): void {
    this.agent = profile.name;
    if (profile.access) this.access = profile.access;
  }

  /** Asks what the settings of the folder offer. A folder that is still being typed offers nothing. */
  async look(): Promise<void> {
    const mine = ++this.#looks;
    let offered: AgentList | null = null;
    try {
      if (this.folder.trim()) offered = await api.agentsIn(this.#folder);
    } catch {
      // no such folder, or none that may be looked at: the start of the turn says so
    }
    if (mine !== this.#looks) return;
    const before = this.profile;
    this.offered = offered;
    if (before && !this.profile) this.agent = ""; // it belongs to another folder
  }

  get #folder(): string {
    return this.folder.trim().replace(/^~(?=\/|$)/, page.me?.home ?? "~");
  }

  get missing(): string {
    if (page.lost) return "The server cannot be reached";
    if (!this.agent) return "Choose an agent";
    if (!this.folder.trim()) return "Choose a folder";
    if (!this.draft.text.trim()) return "Write a prompt";
    return "";
  }

  /** Returns the session in which it runs; null where it could not be started (`problem` says why). */
  async start(): Promise<string | null> {
    if (this.missing || this.sending) return null;
    this.sending = true;
    this.problem = null;
    try {
      await this.attachments.arrived();
      const session = await this.#session();
      const body: NewTurn = { prompt: this.draft.text, attachments: this.attachments.refs, transport: "auto" };
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
    const body: NewSession = { agent: this.agent, folder: this.#folder, access: this.access };
    if (this.transport) body.transport = this.transport;
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
    this.draft.clear();
    this.#transport = null;
    this.#made = null;
    this.#key = null;
  }
}

/** What is being written survives a look at another session. */
export const newTurn = new NewTurnForm();
