// Profiles of a folder's settings, as they are offered. Pure.

import type { ProfileView } from "../words";

// The names that `ostler agents` knows too; each readable on both themes.
const NAMED: Record<string, string> = {
  black: "light-dark(#1d1b19, #edeae6)",
  red: "light-dark(#b3302a, #f5857a)",
  green: "light-dark(#246238, #86c894)",
  yellow: "light-dark(#8a5300, #f3b749)",
  blue: "light-dark(#1f5fbf, #7fb2ff)",
  magenta: "light-dark(#9b2d8f, #ee8fe2)",
  cyan: "light-dark(#0a6a7c, #5fc9d8)",
  white: "light-dark(#645e57, #ffffff)",
};

/** A colour that CSS takes, of a name or #rgb or #rrggbb; "" for anything else. */
export function colorOf(profile: ProfileView): string {
  const wanted = profile.color.trim().toLowerCase();
  if (/^#(?:[0-9a-f]{3}|[0-9a-f]{6})$/.test(wanted)) return wanted;
  return Object.hasOwn(NAMED, wanted) ? NAMED[wanted]! : "";
}

/** "claude · opus": who takes its turns. */
export function behind(profile: ProfileView): string {
  return [profile.agent || "no agent", profile.model].filter(Boolean).join(" · ");
}
