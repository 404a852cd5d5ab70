// Which terminals are on the wall, and in what order: those that want an answer first, then those with the newest output.

import { titleOf } from "../lib/marks";
import type { SessionView, TerminalRow } from "../words";

export type TileState = "asking" | "busy" | "idle" | "ended";
export type WallFilter = "all" | "asking" | "busy" | "ended";

export interface WallTile {
  row: TerminalRow;
  session: SessionView | null;
  title: string;
  state: TileState;
  receivedAt: number; // milliseconds since the epoch
}

const ENDED_SHOWN = 12;
const ENDED_AGE = 24 * 3600; // seconds
const FRESH = 5_000; // ms after which output is not news any more

export function tilesOf(
  rows: Iterable<TerminalRow>,
  sessions: ReadonlyMap<string, SessionView>,
  heard: ReadonlyMap<string, number>,
  nowMs: number,
): WallTile[] {
  const all = [...rows];
  const past = all
    .filter((row) => row.state === "ended" && nowMs / 1000 - (row.ended_at ?? 0) < ENDED_AGE)
    .sort((a, b) => (b.ended_at ?? 0) - (a.ended_at ?? 0))
    .slice(0, ENDED_SHOWN);
  return [...all.filter((row) => row.state === "live"), ...past].map((row) => {
    const session = sessions.get(row.session) ?? null;
    const receivedAt = heard.get(row.id) ?? 0;
    return { row, session, title: session ? titleOf(session) : row.name, state: stateOf(row, session, nowMs - receivedAt), receivedAt };
  });
}

function stateOf(row: TerminalRow, session: SessionView | null, quiet: number): TileState {
  if (row.state === "ended") return "ended";
  const first = (session?.primary_terminal ?? row.id) === row.id;
  if (first && session?.state === "asking") return "asking";
  return row.source === "turn" || quiet < FRESH || (first && session?.state === "busy") ? "busy" : "idle";
}

const RANK: Record<TileState, number> = { asking: 0, busy: 1, idle: 1, ended: 2 };

export function ordered(tiles: WallTile[]): WallTile[] {
  const when = ({ row, receivedAt }: WallTile) => (row.ended_at ?? 0) * 1000 || receivedAt || row.created_at * 1000;
  return tiles.toSorted((a, b) => RANK[a.state] - RANK[b.state] || when(b) - when(a));
}

export function matches(tile: WallTile, filter: WallFilter, words: string): boolean {
  if (filter !== "all" && tile.state !== filter) return false;
  const where = [tile.title, tile.row.name, tile.row.title, tile.row.folder, tile.session?.agent ?? "", ...tile.row.argv];
  const text = where.join("\n").toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
