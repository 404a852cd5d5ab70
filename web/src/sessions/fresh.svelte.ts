// What changed while nobody looked: shown bold until it is opened.

import { SvelteMap } from "svelte/reactivity";
import type { SessionView } from "../words";

const looked = new SvelteMap<string, number>();
const opened = Date.now() / 1000;

export function look(session: SessionView): void {
  const at = moment(session);
  if (looked.get(session.id) !== at) looked.set(session.id, at);
}

export function isFresh(session: SessionView): boolean {
  if (session.state === "asking") return true;
  return session.state === "idle" && session.turn !== null && moment(session) > (looked.get(session.id) ?? opened);
}

function moment(session: SessionView): number {
  return session.turn?.ended_at ?? session.turn?.created_at ?? session.created_at;
}
