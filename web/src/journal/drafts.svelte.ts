// What is being written to each session: kept while one looks at another.

import type { Problem } from "../api";
import { Attachments } from "../start/attachments.svelte";
import type { Access } from "../words";

export class Draft {
  text = $state("");
  access = $state<Access | null>(null); // null: the session's own
  attachments = new Attachments();
  sending = $state(false);
  problem = $state.raw<Problem | null>(null);
  key: { body: string; key: string } | null = null; // the same body again is the same turn
}

const drafts = new Map<string, Draft>();

export function draftOf(session: string): Draft {
  const found = drafts.get(session) ?? new Draft();
  drafts.set(session, found);
  return found;
}
