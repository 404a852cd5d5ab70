// The asks of sessions, for the time lines of their terminals: told by whoever reads the journal, and for the time
// before what is read by the server.

import { SvelteMap } from "svelte/reactivity";
import { api } from "../api";
import { askOf, type Ask, type Entry } from "./book";

export const asksOf = new SvelteMap<string, Ask[]>();

/** An entry that changed is another object: the same ones again are no news. */
export function tellAsks(session: string, entries: Entry[]): void {
  const asks = entries.filter((entry) => entry.kind === "ask");
  const before = asksOf.get(session) ?? [];
  if (asks.length !== before.length || asks.some((ask, i) => ask !== before[i])) asksOf.set(session, asks);
}

/** What the session asked since then. */
export async function asksSince(session: string, since: number): Promise<Ask[]> {
  const rows = await api.asksSince(session, since);
  return rows.map(({ asked, answered_at, option, by }) => ({ ...askOf(asked), answer: answered_at === null ? null : { option, by, message: "", at: answered_at } }));
}

/** All asks of both, once: those of `fresh` are as they are now. */
export function merged(stored: Ask[], fresh: Ask[]): Ask[] {
  const known = new Set(fresh.map((ask) => ask.key));
  return [...stored.filter((ask) => !known.has(ask.key)), ...fresh];
}
