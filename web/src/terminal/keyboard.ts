// A key of the browser as the server wants it. Which bytes it becomes is decided there, by what the program asked for.

import { mac } from "../keys";
import type { KeyPress, Mod } from "./protocol";

/** Keys with a name that terminals know; others (media, browser, launcher keys) are left to the browser. */
const NAMED =
  /^(Enter|Tab|Backspace|Escape|Delete|Insert|Home|End|Page(Up|Down)|Arrow(Up|Down|Left|Right)|F([1-9]|1\d|2[0-5])|(Caps|Num|Scroll)Lock|PrintScreen|Pause|ContextMenu)$/;
const MODIFIER = /^(Shift|Control|Alt|Meta)(Left|Right)$/;

const US: Record<string, string> = {
  Backquote: "`",
  Backslash: "\\",
  BracketLeft: "[",
  BracketRight: "]",
  Comma: ",",
  Equal: "=",
  Minus: "-",
  Period: ".",
  Quote: "'",
  Semicolon: ";",
  Slash: "/",
  Space: " ",
};

/** The event as a key, or null for what is no key of a terminal (input methods, dead keys, media keys). */
export function keyOf(event: KeyboardEvent): KeyPress | null {
  const found = named(event);
  if (found === null) return null;
  const mods = modsOf(event, found.text !== undefined);
  const key: KeyPress = { ...found, event: event.type === "keyup" ? "release" : event.repeat ? "repeat" : "press" };
  if (mods.length > 0) key.mods = mods;
  return key;
}

/** An input method is at work: the text comes later, by itself. */
export function composes(event: KeyboardEvent): boolean {
  return event.isComposing || event.keyCode === 229 || event.key === "Process" || event.key === "Dead";
}

function named(event: KeyboardEvent): KeyPress | null {
  const { key, code } = event;
  if (isCharacter(key)) return code.startsWith("Numpad") ? { name: code, text: key } : character(event);
  if (MODIFIER.test(code)) return { name: code };
  if (code === "NumpadEnter") return { name: code };
  return NAMED.test(key) ? { name: key } : null;
}

function character(event: KeyboardEvent): KeyPress {
  const base = baseOf(event.code);
  const plain = event.shiftKey ? layout?.get(event.code) : undefined;
  const found: KeyPress = { name: event.key, text: event.key };
  if (plain !== undefined && plain !== event.key && isCharacter(plain)) {
    found.name = plain;
    found.shifted = event.key;
  }
  if (base !== undefined) found.base = base;
  return found;
}

/** What a US keyboard types at this place: shortcuts work on every layout by it. */
function baseOf(code: string): string | undefined {
  return /^Key([A-Z])$/.exec(code)?.[1]?.toLowerCase() ?? /^Digit(\d)$/.exec(code)?.[1] ?? US[code];
}

/** Modifiers that only served to make the character (AltGr, Option) are left out. */
function modsOf(event: KeyboardEvent, types: boolean): Mod[] {
  const third = types && (event.getModifierState("AltGraph") || (mac && event.altKey && !event.ctrlKey && !event.metaKey));
  const mods: Mod[] = [];
  if (event.shiftKey) mods.push("shift");
  if (event.altKey && !third) mods.push("alt");
  if (event.ctrlKey && !(third && event.altKey)) mods.push("ctrl");
  if (event.metaKey) mods.push("super");
  if (event.getModifierState("CapsLock")) mods.push("caps");
  if (event.getModifierState("NumLock")) mods.push("num");
  return mods;
}

function isCharacter(key: string): boolean {
  return [...key].length === 1;
}

// Chromium tells what each key types without shift; elsewhere the server assumes a US layout.
let layout: ReadonlyMap<string, string> | undefined;
void (navigator as { keyboard?: { getLayoutMap?: () => Promise<ReadonlyMap<string, string>> } }).keyboard
  ?.getLayoutMap?.()
  .then(
    (found) => (layout = found),
    () => {}, // not allowed here: does without
  );
