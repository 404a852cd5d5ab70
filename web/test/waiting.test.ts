import assert from "node:assert/strict";
import { test } from "node:test";
import type { WaitingTurn } from "../src/api_types";
import { nextOf, waitLine } from "../src/lib/waiting";

const turn = (id: string, session: string, position: number): WaitingTurn => ({
  turn: id, session, position, name: null, agent: "claude", folder: "/w", reason: "claude 3/3 busy", until: null, priority: 0, waited: 1,
});

test("a turn that waits has a place and a reason", () => {
  assert.equal(waitLine({ position: 2, reason: "claude 3/3 busy" }), "place 2 · claude 3/3 busy");
  assert.equal(waitLine({ position: 0, reason: "starting" }), "starting");
});

test("of a session the turn that is next is shown", () => {
  const next = nextOf([turn("b", "k3", 4), turn("a", "k3", 1), turn("c", "m2", 2)]);
  assert.deepEqual([...next].map(([session, one]) => [session, one.turn]), [["k3", "a"], ["m2", "c"]]);
});
