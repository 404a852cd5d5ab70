// Which shape, word and figure stand for a run and its nodes. Pure.

import type { NodeView, RunView, SessionView } from "../api_types";
import { plural } from "../lib/format";
import type { Standing } from "../lib/marks";

const OVER = new Set(["done", "failed", "cancelled", "skipped"]);

export const isOpen = (run: RunView): boolean => ["waiting", "running", "cancelling", "interrupted"].includes(run.state);

export function ofRun(run: RunView): Standing {
  if (!run.reachable) return { mark: "idle", word: "unreachable" };
  switch (run.state) {
    case "running":
      return run.gates > 0 ? { mark: "asking", word: "waits for you" } : { mark: "busy", word: "running" };
    case "cancelling":
      return { mark: "busy", word: "being cancelled" };
    case "waiting":
      return { mark: "queued", word: "waits for a machine" };
    case "interrupted":
      return { mark: "lost", word: "interrupted" };
    case "moved":
      return { mark: "idle", word: "moved to another machine" };
    default:
      return { mark: run.state, word: run.state };
  }
}

export function ofNode(node: NodeView, run: RunView): Standing {
  switch (node.state) {
    case "gate":
      return { mark: "asking", word: "waits for you" };
    case "running":
      return run.state === "interrupted" ? { mark: "lost", word: "interrupted" } : { mark: "busy", word: "running" };
    case "waiting":
      return { mark: "queued", word: "waiting" };
    case "skipped":
      return { mark: "idle", word: "skipped" };
    default:
      return { mark: node.state, word: node.state };
  }
}

/** Where a node that names a machine ran, or runs. `session`: the one that it works in. */
export function placeOf(node: NodeView, session: SessionView | undefined): string {
  const machine = node.machine || session?.machine || "";
  return machine || (node.session ? "this machine" : `on ${node.on}`);
}

/** "6 of 12 nodes" */
export function progress(run: RunView): string {
  return `${ended(run)} of ${plural(run.nodes.length, "node")}`;
}

export const ended = (run: RunView): number => run.nodes.filter((node) => OVER.has(node.state)).length;

/** Seconds that it took, or takes until now. */
export function seconds(of: { started_at: number | null; ended_at: number | null }, now: number): number | null {
  return of.started_at === null ? null : Math.max(0, (of.ended_at ?? now) - of.started_at);
}

/** What a node that waits needs, in words. */
export function missing(node: NodeView, run: RunView): string {
  const open = node.needs.filter((need) => !OVER.has(run.nodes.find((each) => each.name === need)?.state ?? "done"));
  return open.length > 0 ? `needs ${open.join(", ")}` : "is next";
}

/** The node to show where nobody has chosen one: what wants a person, then what failed, runs, or came last. */
export function foremost(run: RunView): NodeView | null {
  const first = (state: string) => run.nodes.find((node) => node.state === state);
  const last = [...run.nodes].reverse().find((node) => node.ended_at !== null);
  return first("gate") ?? first("failed") ?? first("running") ?? last ?? run.nodes[0] ?? null;
}

// -- time

export interface Bar {
  name: string;
  kind: "" | "busy" | "bad" | "gate";
  /** of the whole, in per cent */
  from: number;
  width: number;
}
export interface TimeLine {
  bars: Bar[];
  ticks: { at: number; says: string }[];
  /** where now is; null once the run is over */
  now: number | null;
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400, 604_800];

export function timeLine(run: RunView, now: number): TimeLine {
  const end = run.ended_at ?? now;
  const starts = run.nodes.flatMap((node) => (node.started_at === null || node.started_at < run.created_at ? [] : [node.started_at]));
  const begun = starts.length > 0 ? Math.min(...starts) : run.created_at; // the first node, not the process that runs it
  const whole = Math.max(1, end - begun) * (run.ended_at === null ? 1.06 : 1);
  const share = (at: number) => Math.max(0, Math.min(100, (100 * (at - begun)) / whole));
  const bars = run.nodes.flatMap((node): Bar[] => {
    if (node.started_at === null || node.state === "skipped" || (node.state === "cancelled" && !node.duration_ms)) return [];
    const from = share(node.started_at);
    const kind = node.state === "gate" ? "gate" : node.state === "running" ? "busy" : node.state === "failed" ? "bad" : "";
    return [{ name: node.name, kind, from, width: Math.max(0.4, share(node.ended_at ?? end) - from) }];
  });
  const step = STEPS.find((each) => whole / each <= 7) ?? 604_800;
  const ticks = [];
  for (let at = 0; at < whole; at += step) ticks.push({ at: (100 * at) / whole, says: tick(at) });
  return { bars, ticks, now: run.ended_at === null ? share(now) : null };
}

function tick(seconds: number): string {
  if (seconds === 0) return "0";
  if (seconds % 86_400 === 0) return `${seconds / 86_400}d`;
  if (seconds % 3600 === 0) return `${seconds / 3600}h`;
  return seconds % 60 === 0 ? `${seconds / 60}m` : seconds > 60 ? `${Math.floor(seconds / 60)}m ${seconds % 60}s` : `${seconds}s`;
}
