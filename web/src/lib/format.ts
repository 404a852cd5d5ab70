// Numbers and times as people read them. Pure.

import type { Usage } from "../words";

/** 40s · 14m · 3h · 2d: how long ago, in one figure. */
export function age(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m`;
  if (s < 86_400) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86_400)}d`;
}

/** 12ms · 12.4s · 1m 48s · 2h 05m: how long it took. */
export function duration(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  if (s < 0.1) return `${Math.round(s * 1000)}ms`;
  if (s < 60) return `${s.toFixed(1)}s`;
  const whole = Math.round(s);
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${String(whole % 60).padStart(2, "0")}s`;
  return `${Math.floor(whole / 3600)}h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")}m`;
}

/** 2:14 · 1:02:03: a running time. */
export function running(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  const minutes = Math.floor(s / 60) % 60;
  const tail = String(s % 60).padStart(2, "0");
  if (s < 3600) return `${minutes}:${tail}`;
  return `${Math.floor(s / 3600)}:${String(minutes).padStart(2, "0")}:${tail}`;
}

/** $0.41 · $0.003 · $12.30. Less than a tenth of a cent is said so. */
export function cost(usd: number): string {
  if (usd === 0) return "$0.00";
  if (usd < 0.001) return "< $0.001";
  return `$${usd < 0.01 ? usd.toFixed(3) : usd.toFixed(2)}`;
}

/** 812 · 41.2k · 3.1M */
export function count(n: number): string {
  if (n < 1000) return String(n);
  if (n < 1_000_000) return `${(n / 1000).toFixed(n < 100_000 ? 1 : 0)}k`;
  return `${(n / 1_000_000).toFixed(1)}M`;
}

export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  if (n < 1_000_000) return `${(n / 1000).toFixed(1)} kB`;
  return `${(n / 1_000_000).toFixed(1)} MB`;
}

/** A word as a shell takes it whole, whatever is in it. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./][\w@%+=:,./-]*$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

/** [["41.2k", "in"], ["2.9k", "out"]]: only what is known. */
export function usageParts(usage: Usage | null | undefined): [string, string][] {
  const parts: [string, string][] = [];
  if (usage?.input_tokens != null) parts.push([count(usage.input_tokens), "in"]);
  if (usage?.output_tokens != null) parts.push([count(usage.output_tokens), "out"]);
  return parts;
}

/** Every counter in words, for a title. */
export function usageTitle(usage: Usage | null | undefined): string {
  const names: [keyof Usage, string][] = [
    ["input_tokens", "input"],
    ["cached_tokens", "of which cached"],
    ["output_tokens", "output"],
    ["reasoning_tokens", "of which reasoning"],
  ];
  const known = names.filter(([key]) => usage?.[key] != null);
  return known.map(([key, name]) => `${name} ${whole(usage?.[key] ?? 0)}`).join(", ");
}

// Made once: a new one for each time that is shown costs more than all the rest.
const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const NUMBER = new Intl.NumberFormat("en");

/** 10:42 today, else Nov 12 10:42. */
export function clockTime(at: number, now = Date.now() / 1000): string {
  const date = new Date(at * 1000);
  const today = new Date(now * 1000).setHours(0, 0, 0, 0) === new Date(at * 1000).setHours(0, 0, 0, 0);
  return today ? TIME.format(date) : `${DAY.format(date)} ${TIME.format(date)}`;
}

/** 12,345 */
export function whole(n: number): string {
  return NUMBER.format(n);
}

/** /home/ana/src/paddock → ~/src/paddock */
export function short(folder: string, home: string | undefined): string {
  if (home && (folder === home || folder.startsWith(`${home}/`))) return `~${folder.slice(home.length)}`;
  return folder;
}

export function lastPart(path: string): string {
  return path.replace(/\/+$/, "").split("/").pop() || path;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${whole(n)} ${n === 1 ? one : many}`;
}

/** "no such folder" → "No such folder": the server's messages are parts of sentences. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
