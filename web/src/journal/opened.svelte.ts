// Which folds a person opened or closed: kept while entries leave the window and come back.

import { SvelteMap } from "svelte/reactivity";

const chosen = new SvelteMap<string, boolean>();

export const opened = {
  get: (key: string): boolean | undefined => chosen.get(key),
  /** What it would be anyway is not remembered. */
  set(key: string, open: boolean, otherwise: boolean): void {
    if (open === otherwise && !chosen.has(key)) return;
    chosen.set(key, open);
  },
  clear: (): void => chosen.clear(),
};
