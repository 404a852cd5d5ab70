// The asks of sessions, for the time lines of their terminals: told by whoever reads the journal.

import { SvelteMap } from "svelte/reactivity";
import type { Ask, Entry } from "./book";

export const asksOf = new SvelteMap<string, Ask[]>();

/** An entry that changed is another object: the same ones again are no news. */
export function tellAsks(session: string, entries: Entry[]): void {
  const asks = entries.filter((entry) => entry.kind === "ask");
  const before = asksOf.get(session) ?? [];
  if (asks.length !== before.length || asks.some((ask, i) => ask !== before[i])) asksOf.set(session, asks);
}
