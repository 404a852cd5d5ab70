// How this reader likes terminals: size of the text, and whether a screen reader reads along. Remembered here.

import { keep, kept } from "../lib/kept";

const SMALLEST = 8;
const LARGEST = 28;

const look = $state({ larger: Number(kept("terminal.larger")) || 0, aloud: kept("terminal.aloud") === "yes" });
const phone = matchMedia("(max-width: 719px)");
const sizes = $state({ base: base() });
phone.addEventListener("change", () => (sizes.base = base()));

/** Pixels of the text. */
export function textSize(): number {
  return Math.min(LARGEST, Math.max(SMALLEST, sizes.base + look.larger));
}

/** Pixels of a row, for a text of this size. */
export function rowHeight(size: number): number {
  return Math.round(size * 1.5);
}

/** One step larger or smaller; 0: as it was at first. */
export function enlarge(step: -1 | 0 | 1): void {
  const larger = step === 0 ? 0 : textSize() + step - sizes.base;
  if (sizes.base + larger < SMALLEST || sizes.base + larger > LARGEST) return;
  look.larger = larger;
  keep("terminal.larger", larger === 0 ? null : String(larger));
}

export const readsAloud = () => look.aloud;

export function readAloud(aloud: boolean): void {
  look.aloud = aloud;
  keep("terminal.aloud", aloud ? "yes" : null);
}

/** The token's own size: it is smaller on a phone. */
function base(): number {
  return parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--text-term")) || 12;
}
