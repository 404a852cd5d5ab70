// What today cost. A session that began today tells it; one that is older is asked for its turns of today.

import { SvelteMap } from "svelte/reactivity";
import { api } from "../api";
import { page } from "../state.svelte";
import type { SessionView } from "../words";

const older = new SvelteMap<string, { at: number; usd: number }>(); // what was found out, and for which state of it
const asked = new Map<string, number>();

/** Dollars; null where no agent said what it costs. */
export function today(): number | null {
  const begin = new Date().setHours(0, 0, 0, 0) / 1000;
  let sum: number | null = null;
  for (const session of page.sessions.values()) {
    if (session.used_at < begin || session.cost_usd === null) continue;
    sum = (sum ?? 0) + (session.created_at >= begin ? session.cost_usd : costOfOld(session, begin));
  }
  return sum;
}

function costOfOld(session: SessionView, begin: number): number {
  if (asked.get(session.id) !== session.used_at) {
    asked.set(session.id, session.used_at);
    queueMicrotask(() => void ask(session, begin));
  }
  return older.get(session.id)?.usd ?? 0;
}

async function ask(session: SessionView, begin: number): Promise<void> {
  try {
    const turns = await api.turns(session.id);
    const usd = turns.reduce((sum, turn) => sum + ((turn.ended_at ?? 0) >= begin ? (turn.cost_usd ?? 0) : 0), 0);
    older.set(session.id, { at: session.used_at, usd });
  } catch {
    asked.delete(session.id); // asked again when it changes
  }
}
