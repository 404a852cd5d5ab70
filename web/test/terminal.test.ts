import assert from "node:assert/strict";
import { test } from "node:test";
import type { Terminal } from "@xterm/xterm";
import { readCast, readSize } from "../src/terminal/cast";
import { Drawing } from "../src/terminal/drawing";
import { ending, markOf } from "../src/terminal/ending";
import { readOutput } from "../src/terminal/protocol";
import { matches, ordered, tilesOf, type WallTile } from "../src/terminal/wall";
import type { SessionView, TerminalRow } from "../src/words";

const row = (id: string, more: Partial<TerminalRow> = {}) =>
  ({ id, session: `s-${id}`, name: id, source: "pty", state: "live", created_at: 1000, ended_at: null, argv: [], folder: "/f", title: "", exit: null, ...more }) as TerminalRow;
const session = (id: string, state: string, primary: string | null = null) =>
  ({ id, state, agent: "claude", name: null, title: `Title ${id}`, folder: "/f", primary_terminal: primary, turn: null }) as unknown as SessionView;
const ids = (tiles: WallTile[]) => tiles.map((tile) => tile.row.id);

test("a recording is read; broken and unfinished lines are passed over, times never go back", () => {
  const lines = ['{"version": 2, "width": 80, "height": 24, "timestamp": 5}', '[0.5, "o", "a"]', "[0.2, \"r\", \"100x30\"]", "nonsense", "[1]", '[2, "m", "here"]', '[3, "o", "cut'];
  assert.deepEqual(readCast(lines.join("\n")), {
    cols: 80,
    rows: 24,
    began: 5,
    events: [
      { at: 0.5, kind: "o", data: "a" },
      { at: 0.5, kind: "r", data: "100x30" },
      { at: 2, kind: "m", data: "here" },
    ],
    length: 2,
  });
  assert.equal(readCast('{"version": 3}'), null);
  assert.equal(readCast("<html>"), null);
  assert.deepEqual(readSize("100x30"), { cols: 100, rows: 30 });
  assert.equal(readSize("1e9x1"), null);
});

test("a frame of bytes is an offset and output", () => {
  const frame = new Uint8Array([0, 0, 0, 1, 0, 0, 0, 2, 104, 105]);
  const { offset, data } = readOutput(frame.buffer);
  assert.equal(offset, 2 ** 32 + 2);
  assert.equal(new TextDecoder().decode(data), "hi");
});

test("a resize waits for what was written before it, and what comes after waits for the resize", () => {
  const seen: string[] = [];
  const parse: (() => void)[] = [];
  const term = {
    cols: 80,
    rows: 24,
    write: (data: string, done?: () => void) => parse.push(() => (data && seen.push(JSON.stringify(data)), done?.())),
    resize: (cols: number, rows: number) => (seen.push(`${cols}x${rows}`), Object.assign(term, { cols, rows })),
  };
  const drawing = new Drawing(term as unknown as Terminal);
  drawing.write("one");
  drawing.resize(100, 30);
  drawing.write("two");
  drawing.show(20, 5, "screen");
  drawing.write("three");
  while (parse.length > 0) parse.shift()?.();
  assert.deepEqual(seen, ['"one"', "100x30", '"two"', "20x5", '"\\u001bcscreen"', '"three"']);
});

test("how a program ended, in words and as a shape", () => {
  assert.deepEqual(ending({ code: 0 }), { words: "exit 0", ok: true, mark: "done" });
  assert.deepEqual(ending({ code: 3 }), { words: "exit 3", ok: false, mark: "failed" });
  assert.deepEqual(ending({ signal: 9 }), { words: "killed by signal 9", ok: true, mark: "cancelled" });
  assert.deepEqual(ending({ signal: 11 }), { words: "crashed by signal 11", ok: false, mark: "failed" });
  assert.deepEqual(ending({ code: 130 }), { words: "interrupted, exit 130", ok: true, mark: "cancelled" });
  assert.equal(ending(null).mark, "unproven");
  assert.equal(markOf(row("a"), true).mark, "busy");
  assert.equal(markOf(row("a", { state: "ended", exit: { code: 1 } }), false).word, "ended, exit 1");
});

test("on the wall: asking first, then the newest output, ended ones last and only for a day", () => {
  const now = 100_000_000;
  const rows = [
    row("quiet"),
    row("loud"),
    row("asks"),
    row("beside", { session: "s-asks" }),
    row("over", { state: "ended", ended_at: now / 1000 - 60 }),
    row("old", { state: "ended", ended_at: now / 1000 - 200_000 }),
  ];
  const sessions = new Map([["s-asks", session("s-asks", "asking", "asks")], ["s-loud", session("s-loud", "busy")]]);
  const heard = new Map([["loud", now - 100], ["quiet", now - 60_000]]);
  const tiles = ordered(tilesOf(rows, sessions, heard, now));
  assert.deepEqual(ids(tiles), ["asks", "loud", "quiet", "beside", "over"]);
  assert.deepEqual(tiles.map((tile) => tile.state), ["asking", "busy", "idle", "idle", "ended"]);
  assert.deepEqual(ids(tiles.filter((tile) => matches(tile, "busy", ""))), ["loud"]);
  assert.deepEqual(ids(tiles.filter((tile) => matches(tile, "all", "title ASKS"))), ["asks", "beside"]);
});
