// The keyboard map. Whoever offers an action binds its key here; `?` and ⌘K list what is bound.

export interface KeyBinding {
  /** "n", "?", "g s" (one after the other), "mod+k", "ctrl+shift+enter". mod is ⌘ on a Mac, Ctrl elsewhere. */
  keys: string;
  says: string;
  group: "Go" | "Turns" | "Terminal" | "Page";
  run: (event: KeyboardEvent | null) => void;
  when?: () => boolean;
  /** Also while a field or a terminal has the focus (chords; a plain letter belongs to the field). Outside macOS
   *  mod is Ctrl, and Ctrl with a letter belongs to the program in a terminal: there it needs Shift as well. */
  everywhere?: boolean;
  /** Not listed in the palette (it needs the key itself, or makes no sense there). */
  unlisted?: boolean;
}

export const mac = /Mac|iPhone|iPad/.test(navigator.platform);
const bound = new Set<KeyBinding>();
const CHAIN = 1000; // ms in which the second key of "g s" has to come
let first: { key: string; at: number } | null = null;

/** Binds keys until the returned function is called: `$effect(() => bind([...]))`. */
export function bind(keys: KeyBinding[]): () => void {
  for (const key of keys) bound.add(key);
  return () => {
    for (const key of keys) bound.delete(key);
  };
}

/** What can be done now, newest binding first where two share a key. */
export function active(): KeyBinding[] {
  const taken = new Set<string>();
  return [...bound].reverse().filter((key) => {
    if (key.when && !key.when()) return false;
    const fresh = !taken.has(key.keys);
    taken.add(key.keys);
    return fresh;
  });
}

/** What can be done now, in the order in which it was bound: for people. */
export function listed(): KeyBinding[] {
  return active().reverse();
}

const SIGNS: Record<string, string> = {
  mod: mac ? "⌘" : "Ctrl",
  ctrl: mac ? "⌃" : "Ctrl",
  shift: mac ? "⇧" : "Shift",
  alt: mac ? "⌥" : "Alt",
  enter: "↵",
  esc: "Esc",
  arrowup: "↑",
  arrowdown: "↓",
};

/** The caps to show for "mod+k" or "g s": one string for each cap. */
export function caps(keys: string): string[] {
  return keys.split(" ").map((press) => {
    const parts = press.split("+").map((part) => SIGNS[part] ?? (part.length === 1 ? part.toUpperCase() : part));
    return parts.join(mac || parts.length === 1 ? "" : "+");
  });
}

/** True where letters belong to what has the focus: a field, or a terminal (`data-owns-keys`). */
export function ownsKeys(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.closest("input, textarea, select, [data-owns-keys]") !== null;
}

/** True in the screen of a terminal, where keys go to a program. */
function inProgram(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest(".term") !== null;
}

function pressed(event: KeyboardEvent): string {
  const key = event.key === "Escape" ? "esc" : event.key.toLowerCase();
  const letter = event.key.length === 1;
  const mods: string[] = [];
  if (mac ? event.metaKey : event.ctrlKey && !event.shiftKey) mods.push("mod");
  else if (event.ctrlKey) mods.push("ctrl");
  if (event.altKey) mods.push("alt");
  if (event.shiftKey && (!letter || mods.length > 0)) mods.push("shift");
  return [...mods, key].join("+");
}

function heard(event: KeyboardEvent): void {
  if (event.isComposing || event.key === "Shift" || event.key === "Control" || event.key === "Meta") return;
  const press = pressed(event);
  const inField = ownsKeys(event.target);
  if (event.target instanceof HTMLElement && event.target.dataset.chord === press) return; // the field's own, whoever else binds it
  if (inProgram(event.target) && !mac && press.startsWith("mod+")) return;
  const chain = first !== null && event.timeStamp - first.at < CHAIN && !inField ? `${first.key} ${press}` : null;
  first = null;
  const found = match(chain, inField) ?? match(press, inField);
  if (found) {
    event.preventDefault();
    event.stopPropagation();
    found.run(event);
  } else if (!inField && press.length === 1 && active().some((key) => key.keys.startsWith(`${press} `))) {
    first = { key: press, at: event.timeStamp };
  }
}

function match(press: string | null, inField: boolean): KeyBinding | undefined {
  if (press === null) return undefined;
  return active().find((key) => key.keys === press && (!inField || key.everywhere));
}

// In the capture phase: a terminal must not see a chord that is ours.
addEventListener("keydown", heard, { capture: true });
