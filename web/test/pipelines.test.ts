// Where the nodes of a run stand, and what stands for them.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { NodeView, RunView, SessionView } from "../src/api_types.ts";
import { HEIGHT, layout, WIDTH } from "../src/pipelines/layout.ts";
import { foremost, missing, ofNode, ofRun, placeOf, progress, timeLine } from "../src/pipelines/runs.ts";

const node = (name: string, more: Partial<NodeView> = {}): NodeView => ({
  name, kind: "agent", agent: "claude", on: "", machine: "", what: "", needs: [], manual: false, each: false, rounds: 0, state: "waiting", started_at: null,
  ended_at: null, duration_ms: null, cost_usd: null, session: "", turn: "", error: "", added: 0, removed: 0, tries: 1, items: [], ...more,
});
const run = (nodes: NodeView[], more: Partial<RunView> = {}): RunView => ({
  id: "r1", pipeline: "flow", description: "", folder: "/w", mode: "auto", state: "running", created_at: 100, ended_at: null, error: "",
  fork_of: null, inputs: {}, cost_usd: null, cost_limit_usd: null, gates: nodes.filter((each) => each.state === "gate").length, nodes, machine: "", reachable: true, ...more,
});

test("nodes stand in columns by what they need, none over another", () => {
  const nodes = [node("a"), ...["b", "c", "d"].map((name) => node(name, { needs: ["a"] })), node("e", { needs: ["b", "c", "d"] }), node("f", { needs: ["a", "e"] })];
  const drawn = layout(nodes);
  const at = Object.fromEntries(drawn.nodes.map((one) => [one.node.name, one]));
  assert.deepEqual([at.a.x < at.b.x, at.b.x === at.d.x, at.d.x < at.e.x, at.e.x < at.f.x], [true, true, true, true]);
  assert.equal(at.a.y, at.c.y); // in the middle of those that need it
  assert.equal(at.e.y, at.c.y);
  for (const one of drawn.nodes) {
    assert.ok(one.x >= 0 && one.y >= 0 && one.x + WIDTH <= drawn.width && one.y + HEIGHT <= drawn.height);
    for (const other of drawn.nodes) assert.ok(one === other || one.x !== other.x || Math.abs(one.y - other.y) >= HEIGHT);
  }
  assert.equal(drawn.lines.length, 8);
  assert.deepEqual(layout([]).lines, []);
});

test("a line says how what it leads to stands", () => {
  const kind = (from: NodeView["state"], to: NodeView["state"]) => layout([node("a", { state: from }), node("b", { state: to, needs: ["a"] })]).lines[0]?.kind;
  assert.deepEqual(
    [kind("done", "done"), kind("done", "running"), kind("done", "gate"), kind("failed", "skipped"), kind("failed", "done"), kind("running", "waiting"), kind("done", "waiting")],
    ["met", "flow", "ask", "cut", "wait", "wait", "met"],
  );
});

test("a run and its nodes have a shape and a word", () => {
  const gate = node("ship", { kind: "gate", state: "gate", needs: ["b"] });
  const busy = node("b", { state: "running", started_at: 110 });
  assert.equal(ofRun(run([gate])).mark, "asking");
  assert.equal(ofRun(run([busy])).mark, "busy");
  assert.equal(ofRun(run([gate], { state: "interrupted" })).mark, "lost");
  assert.equal(ofRun(run([busy], { state: "waiting" })).word, "waits for a machine");
  assert.equal(ofRun(run([busy], { state: "moved" })).word, "moved to another machine");
  assert.equal(ofNode(busy, run([busy], { state: "interrupted" })).word, "interrupted");
  assert.equal(ofNode(node("x"), run([])).mark, "queued");
  const all = run([node("a", { state: "done", ended_at: 105 }), busy, node("c", { needs: ["a", "b"] })]);
  assert.equal(progress(all), "1 of 3 nodes");
  assert.equal(missing(all.nodes[2] as NodeView, all), "needs b");
  assert.equal(foremost(run([busy, gate]))?.name, "ship");
  assert.equal(foremost(all)?.name, "b");
});

test("bars lie within the time of the run, and now is told while it runs", () => {
  const nodes = [node("a", { state: "done", started_at: 100, ended_at: 130 }), node("b", { state: "failed", started_at: 130, ended_at: 160 }), node("c")];
  const line = timeLine(run(nodes, { state: "failed", ended_at: 160 }), 999);
  assert.deepEqual(line.bars.map((bar) => [bar.name, bar.kind, bar.from, bar.width]), [["a", "", 0, 50], ["b", "bad", 50, 50]]);
  assert.deepEqual(line.ticks.map((tick) => tick.says), ["0", "10s", "20s", "30s", "40s", "50s"]);
  assert.equal(line.now, null);
  assert.ok((timeLine(run(nodes), 160).now ?? 0) > 90);
});

test("a run of a machine that does not answer stands as what was last known", () => {
  assert.deepEqual(ofRun(run([], { machine: "owl", reachable: false })), { mark: "idle", word: "unreachable" });
});

test("where a node runs: wanted, at work, and at its end", () => {
  const far = { id: "k3", machine: "crow" } as SessionView;
  const wanted = node("a", { on: "gpu" });
  assert.deepEqual(
    [placeOf(wanted, undefined), placeOf({ ...wanted, session: "k3" }, far), placeOf({ ...wanted, session: "k3" }, { ...far, machine: "" }), placeOf({ ...wanted, session: "k3", machine: "owl" }, undefined)],
    ["on gpu", "crow", "this machine", "owl"],
  );
});
