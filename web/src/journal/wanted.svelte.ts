// Which ask a person wants to see next: set by the list of sessions, followed by the journal that shows it.

class Wanted {
  /** The session whose oldest open ask is to have the focus; once it has, null again. */
  session = $state<string | null>(null);
}

export const wanted = new Wanted();

/** The open asks that are drawn, from the top. */
export function cards(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>(".journal [data-ask][data-open]")];
}

/** Focuses the card behind the one that has the focus, or the first. False: there is none. */
export function focusNext(): boolean {
  const shown = cards();
  const at = shown.findIndex((card) => card.contains(document.activeElement));
  const next = shown[at + 1];
  if (next) focusCard(next);
  return next !== undefined;
}

/** Shows a card from its head, and focuses it. */
export function focusCard(card: HTMLElement): void {
  card.focus({ preventScroll: true });
  const room = card.closest(".journal")?.clientHeight ?? innerHeight;
  card.scrollIntoView({ block: card.offsetHeight > room ? "start" : "nearest" });
}
