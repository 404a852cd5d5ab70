// Where the nodes of a run stand, and the lines between them. Pure.

import type { NodeView } from "../api_types";

export const WIDTH = 172;
export const HEIGHT = 84;
const COLUMN = WIDTH + 42;
const ROW = HEIGHT + 24;
const EDGE = 18; // around the whole

export interface PlacedNode {
  node: NodeView;
  x: number;
  y: number;
}
export interface Line {
  from: string;
  to: string;
  kind: "met" | "flow" | "ask" | "cut" | "wait";
  path: string;
}
export interface Layout {
  width: number;
  height: number;
  nodes: PlacedNode[];
  lines: Line[];
}

/** Columns from left to right by what needs what; in a column each as near to what it needs as there is room. */
export function layout(nodes: readonly NodeView[]): Layout {
  const depth = depths(nodes);
  const y = new Map<string, number>();
  for (const column of columns(nodes, depth)) for (const [name, top] of placed(column, y)) y.set(name, top);
  const least = Math.min(0, ...y.values());
  const found = nodes.map((node): PlacedNode => ({ node, x: EDGE + (depth.get(node.name) ?? 0) * COLUMN, y: EDGE + (y.get(node.name) ?? 0) - least }));
  const at = new Map(found.map((one) => [one.node.name, one]));
  return {
    width: Math.max(0, ...found.map((one) => one.x + WIDTH)) + EDGE,
    height: Math.max(0, ...found.map((one) => one.y + HEIGHT)) + EDGE,
    nodes: found,
    lines: found.flatMap((to) => to.node.needs.flatMap((need) => line(at.get(need), to))),
  };
}

/** How many nodes come before each, on the longest way. Nodes come after those that they need. */
function depths(nodes: readonly NodeView[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const node of nodes) found.set(node.name, Math.max(0, ...node.needs.map((need) => 1 + (found.get(need) ?? 0))));
  return found;
}

function columns(nodes: readonly NodeView[], depth: Map<string, number>): NodeView[][] {
  const found: NodeView[][] = [];
  for (const node of nodes) (found[depth.get(node.name) ?? 0] ??= []).push(node);
  return found;
}

/** The tops of a column's nodes: where they would like to be, moved apart, and the whole back to the middle. */
function placed(column: readonly NodeView[], y: Map<string, number>): [string, number][] {
  const wanted = column.map((node, i) => ({ name: node.name, at: node.needs.length > 0 ? mean(node.needs.map((need) => y.get(need) ?? 0)) : i * ROW }));
  wanted.sort((a, b) => a.at - b.at); // stable: the file's order decides
  let next = -Infinity;
  const tops = wanted.map(({ at }) => (next = Math.max(at, next + ROW)));
  const back = mean(wanted.map(({ at }) => at)) - mean(tops);
  return wanted.map(({ name }, i) => [name, (tops[i] ?? 0) + back]);
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function line(from: PlacedNode | undefined, to: PlacedNode): Line[] {
  if (from === undefined) return [];
  const kind = kindOf(from.node, to.node);
  const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  const bend = Math.min(48, (x2 - x1) / 2);
  const path =
    kind === "cut"
      ? `M${x1} ${y1}h12m-4 -5l8 10m0 -10l-8 10`
      : `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  return [{ from: from.node.name, to: to.node.name, kind, path }];
}

function kindOf(from: NodeView, to: NodeView): Line["kind"] {
  if (to.state === "gate") return "ask";
  if (to.state === "running") return "flow";
  if ((from.state === "failed" || from.state === "cancelled") && to.state !== "done" && to.state !== "failed") return "cut";
  return from.state === "done" && to.state !== "skipped" && to.state !== "cancelled" ? "met" : "wait";
}
