// Terminals whose programs rang a bell: shown until somebody has had the time to see them.

import { SvelteSet } from "svelte/reactivity";

export const SHOWN = 4000; // ms that a bell is shown where its terminal is looked at

const rung = new SvelteSet<string>();

export const bells = {
  ring: (terminal: string): void => void rung.add(terminal),
  of: (terminal: string): boolean => rung.has(terminal),
  look: (terminal: string): void => void rung.delete(terminal),
  get rung(): string[] {
    return [...rung];
  },
};
