// What is being written to each session: kept while one looks at another, and when the page is loaded again.

import type { Problem } from "../api";
import { forget, keep, kept } from "../lib/kept";
import type { Transport } from "../lib/transports";
import { Attachments, type Sent } from "../start/attachments.svelte";
import { ACCESSES } from "../start/access";
import type { Access } from "../words";

interface Stored {
  text: string;
  access: Access | null;
  files: Sent[];
  at: number; // when it was written, in seconds
}

const PREFIX = "draft.";
const LONGEST = 200_000; // characters that a browser is asked to remember
const OLD = 30 * 86_400; // seconds after which nobody comes back to it

export class Draft {
  text = $state("");
  access = $state<Access | null>(null); // null: the session's own
  transport = $state<Transport | null>(null); // null: the session's own
  attachments = new Attachments();
  sending = $state(false);
  problem = $state.raw<Problem | null>(null);
  key: { body: string; key: string } | null = null; // the same body again is the same turn

  constructor(private name: string) {
    const stored = read(name);
    this.text = stored?.text ?? "";
    this.access = stored?.access ?? null;
    this.attachments.restore(stored?.files ?? []);
    // It lives as long as the page: nobody has to end this effect.
    $effect.root(() => {
      $effect(() => this.#keep());
    });
  }

  /** This text, with these files, has arrived; what was written or added meanwhile is the next prompt. */
  sent(text: string, uploads: string[] = []): void {
    this.key = null;
    this.text = this.text.startsWith(text) ? this.text.slice(text.length).trimStart() : this.text;
    this.attachments.drop(uploads);
    this.transport = null;
  }

  clear(): void {
    this.key = null;
    this.text = "";
    this.attachments.clear();
  }

  #keep(): void {
    const { text, access } = this;
    const files = this.attachments.sent;
    const worth = (text.trim() !== "" || files.length > 0) && text.length <= LONGEST;
    const stored: Stored = { text, access, files, at: Math.floor(Date.now() / 1000) };
    keep(this.name, worth ? JSON.stringify(stored) : null);
  }
}

const drafts = new Map<string, Draft>();

export function draftOf(session: string): Draft {
  const found = drafts.get(session) ?? new Draft(PREFIX + session);
  drafts.set(session, found);
  return found;
}

/** Whoever logs out leaves nothing behind. */
export function forgetDrafts(): void {
  for (const draft of drafts.values()) draft.clear();
  forget(PREFIX);
}

forget(PREFIX, (name) => read(name) === null);

/** What was kept under this name; null for nothing, for what is old, and for what is not understood. */
function read(name: string): Stored | null {
  try {
    const { text, access, files, at } = JSON.parse(kept(name) ?? "null") ?? {};
    if (typeof text !== "string" || Date.now() / 1000 - at > OLD) return null;
    return { text, access: ACCESSES.includes(access) ? access : null, files: Array.isArray(files) ? files : [], at };
  } catch {
    return null;
  }
}
