// The keys of a terminal's page. In a terminal every key belongs to the program, but for the ⌃⇧ chords.

import { mac, type KeyBinding } from "../keys";
import { readAloud, readsAloud } from "./look.svelte";

/** What the keys act on: the view in front. */
interface View {
  focus(): void;
  find(): void;
  toggleLease(): void;
}

export function terminalKeys(view: () => View | undefined): KeyBinding[] {
  const group = "Terminal" as const;
  const shown = () => view() !== undefined;
  const find = () => view()?.find();
  return [
    { keys: "ctrl+shift+enter", says: "Take the keyboard, or hand it back", group, everywhere: true, when: shown, run: () => view()?.toggleLease() },
    { keys: "ctrl+shift+.", says: "Leave the terminal", group, everywhere: true, run: leave },
    { keys: "ctrl+shift+>", says: "Leave the terminal", group, everywhere: true, unlisted: true, run: leave }, // the same key where shift makes it one
    { keys: "ctrl+shift+f", says: "Search in the terminal", group, everywhere: true, when: shown, run: find },
    { keys: "mod+f", says: "Search in the terminal", group, everywhere: true, unlisted: true, when: () => mac && typesHere(), run: find },
    { keys: "g a", says: "Turn screen-reader support for terminals on or off", group, run: () => readAloud(!readsAloud()) },
  ];
}

function leave(): void {
  if (typesHere()) (document.activeElement as HTMLElement).blur();
}

function typesHere(): boolean {
  return document.activeElement?.closest("[data-owns-keys]") != null;
}
