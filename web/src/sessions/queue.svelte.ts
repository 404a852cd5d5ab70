// The pool's queue, asked for as long as turns wait: places and reasons change without any session changing.

import { SvelteMap } from "svelte/reactivity";
import { api } from "../api";
import type { WaitingTurn } from "../api_types";
import { nextOf } from "../lib/waiting";

const EVERY = 2000;

class Queue {
  /** turn → why it waits */
  turns = new SvelteMap<string, WaitingTurn>();
  /** session → the turn of it that is next */
  sessions = new SvelteMap<string, WaitingTurn>();

  /** Asks now and every two seconds; the returned function ends it. */
  follow(): () => void {
    let over = false;
    const ask = async () => {
      try {
        const { waiting } = await api.queue();
        if (!over) this.#keep(waiting);
      } catch {
        // The page says by itself that the server does not answer.
      }
    };
    void ask();
    const timer = setInterval(ask, EVERY);
    return () => {
      over = true;
      clearInterval(timer);
      this.#keep([]);
    };
  }

  #keep(waiting: readonly WaitingTurn[]): void {
    this.turns.clear();
    for (const turn of waiting) this.turns.set(turn.turn, turn);
    this.sessions.clear();
    for (const [session, turn] of nextOf(waiting)) this.sessions.set(session, turn);
  }
}

export const queue = new Queue();
