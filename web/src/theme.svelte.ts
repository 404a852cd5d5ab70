// Dark, light, or as the system has it. Only `color-scheme` changes: the tokens know both.

import { keep, kept } from "./lib/kept";

export type Theme = "auto" | "light" | "dark";

const stored = kept("theme");
export const look = $state<{ theme: Theme }>({ theme: stored === "light" || stored === "dark" ? stored : "auto" });
apply();

export function setTheme(theme: Theme): void {
  look.theme = theme;
  keep("theme", theme === "auto" ? null : theme);
  apply();
}

function apply(): void {
  const root = document.documentElement;
  if (look.theme === "auto") delete root.dataset.theme;
  else root.dataset.theme = look.theme;
}
