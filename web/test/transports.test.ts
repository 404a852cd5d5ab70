import assert from "node:assert/strict";
import { test } from "node:test";
import { canBeSteered, heldBy, isVisible, transportOf } from "../src/lib/transports.ts";
import type { AgentReport, SessionView, TerminalRow, TurnView } from "../src/words.ts";

const session = (fields: Partial<SessionView> = {}) => ({ transport: null, turn: null, ...fields }) as SessionView;
const terminal = (fields: Partial<TerminalRow> = {}) => ({ tui: true, state: "live", held_by: "", ...fields }) as TerminalRow;
const turn = (fields: Partial<TurnView>) => fields as TurnView;

test("a session that was moved says how its next turn is run, else the agent does", () => {
  const talks = { dialog: true } as AgentReport;
  assert.equal(transportOf(session({ transport: "pty" }), talks), "pty");
  assert.equal(transportOf(session(), talks), "dialog");
  assert.equal(transportOf(session(), { dialog: false } as AgentReport), "pipe");
  assert.equal(transportOf(session(), null), "pipe");
});

test("an agent is visible while its screen is there, and where its turns are run so", () => {
  assert.equal(isVisible(session(), []), false);
  assert.equal(isVisible(session(), [terminal()]), true);
  assert.equal(isVisible(session(), [terminal({ state: "ended" }), terminal({ tui: false })]), false);
  assert.equal(isVisible(session({ transport: "pty" }), []), true);
  assert.equal(isVisible(session({ transport: "dialog" }), []), false);
  assert.equal(isVisible(session({ turn: turn({ transport: "visible", state: "running" }) }), []), true);
  assert.equal(isVisible(session({ turn: turn({ transport: "visible", state: "ended" }) }), []), false);
  assert.equal(isVisible(session({ transport: "pty", turn: turn({ transport: "pipe", state: "running" }) }), []), false);
});

test("a turn in a dialog can be told more while it runs", () => {
  assert.equal(canBeSteered(session({ turn: turn({ transport: "dialog", state: "asking" }) })), true);
  assert.equal(canBeSteered(session({ turn: turn({ transport: "dialog", state: "ended" }) })), false);
  assert.equal(canBeSteered(session({ turn: turn({ transport: "pty", state: "running" }) })), false);
  assert.equal(canBeSteered(session()), false);
});

test("who has the keyboard of the agent's own screen", () => {
  assert.equal(heldBy([terminal({ tui: false, held_by: "Eve" }), terminal({ state: "ended", held_by: "Eve" })]), "");
  assert.equal(heldBy([terminal(), terminal({ held_by: "Eve" })]), "Eve");
});
