import assert from "node:assert/strict";
import { test } from "node:test";
import { Book, type Entry } from "../src/journal/book";
import type { JournalEvent } from "../src/words";

let seq = 0;
type Bare = { kind: string; [name: string]: unknown };
const events = (...bare: Bare[]) => bare.map((one) => ({ seq: ++seq, at: seq, turn: "t1", ...one }) as unknown as JournalEvent);

function book(...bare: Bare[]): Book {
  seq = 0;
  const made = new Book();
  made.add(events(...bare));
  return made;
}
const kinds = (made: Book) => made.entries.map((entry) => entry.kind);
const only = <K extends Entry["kind"]>(made: Book, kind: K) => made.entries.filter((entry) => entry.kind === kind) as Extract<Entry, { kind: K }>[];

test("a turn begins with its prompt, and the agent names itself", () => {
  const made = book({ kind: "started", agent: "claude", model: "m1" }, { kind: "text", text: "hi", id: "a" });
  assert.deepEqual(kinds(made), ["prompt", "text"]);
  assert.equal(only(made, "prompt")[0]?.model, "m1");
});

test("deltas grow into one text, which the whole one replaces", () => {
  const made = book({ kind: "text_delta", text: "he", id: "a" }, { kind: "text_delta", text: "llo", id: "a" });
  const before = made.entries[1];
  assert.equal(only(made, "text")[0]?.text, "hello");
  assert.equal(only(made, "text")[0]?.whole, false);
  made.add(events({ kind: "text", text: "hello!", id: "a" }));
  assert.deepEqual(only(made, "text").map((one) => [one.text, one.whole, one.seq]), [["hello!", true, 1]]);
  assert.notEqual(made.entries[1], before, "what changed is a new object: it is drawn again");
});

test("a second text under the same id is a second entry", () => {
  const made = book({ kind: "text", text: "one", id: "a" }, { kind: "text", text: "two", id: "a" });
  assert.deepEqual(only(made, "text").map((one) => one.text), ["one", "two"]);
});

test("events that come twice are taken once", () => {
  const made = book({ kind: "text", text: "one", id: "a" });
  made.add([{ seq: 1, at: 1, turn: "t1", kind: "text", text: "one", id: "a" }]);
  assert.equal(only(made, "text").length, 1);
  assert.equal(made.last, 1);
});

test("a tool's end joins its start; tools of a subagent are indented", () => {
  const made = book(
    { kind: "tool_started", id: "1", name: "Task" },
    { kind: "tool_started", id: "2", name: "Bash", parent: "1" },
    { kind: "tool_ended", id: "2", ok: false, output: "no", exit_code: 3 },
    { kind: "tool_ended", id: "9" },
  );
  const [task, bash] = only(made, "tool");
  assert.equal(task?.end, null);
  assert.deepEqual([bash?.depth, bash?.end?.ok, bash?.end?.exit_code], [1, false, 3]);
  assert.equal(made.progress.get("t1")?.tools, 2);
});

test("the plan is one entry that changes", () => {
  const made = book({ kind: "plan", steps: [{ text: "a", status: "pending" }] }, { kind: "plan", steps: [{ text: "a", status: "done" }] });
  assert.deepEqual(only(made, "plan").map((one) => one.steps[0]?.status), ["done"]);
});

test("raw records and attempts at one limit are gathered", () => {
  const made = book(
    { kind: "raw", line: "a" }, { kind: "raw", record: { x: 1 } },
    { kind: "limited", message: "429", attempt: 1, retry_in: 5 }, { kind: "limited", message: "429", attempt: 2, retry_at: 99 },
  );
  assert.deepEqual(only(made, "raw").map((one) => one.lines), [["a", '{"x":1}']]);
  assert.deepEqual(only(made, "limited").map((one) => [one.attempt, one.retry]), [[2, 99]]);
});

test("a kind that this page does not know is kept as raw", () => {
  const made = book({ kind: "brand_new", what: "?" });
  assert.match(only(made, "raw")[0]?.lines[0] ?? "", /brand_new/);
});

test("usage is the newest report, not a sum; ids of two turns do not meet", () => {
  const made = book({ kind: "usage", usage: { input_tokens: 5 } }, { kind: "usage", usage: { input_tokens: 9 }, cost_usd: 0.1 });
  assert.deepEqual(made.progress.get("t1"), { steps: [], usage: { input_tokens: 9 }, cost: 0.1, tools: 0 });
  made.add(events({ kind: "text", text: "x", id: "a", turn: "t2" }));
  assert.deepEqual(only(made, "prompt").map((one) => one.turn), ["t1", "t2"]);
});

test("an answered question keeps its answer", () => {
  const made = book({ kind: "asked", id: "q", tool: "shell" }, { kind: "answered", id: "q", option: "allow_once", by: "ana" });
  assert.equal(only(made, "ask")[0]?.answer?.by, "ana");
});

test("a tool shows its terminal, whichever is told first and however often", () => {
  const opened = { kind: "terminal_opened", terminal: "t-1", title: "make" };
  const tool = { kind: "tool_started", id: "c", name: "shell" };
  for (const told of [
    [tool, opened, { ...opened, tool: "c" }, { ...opened, tool: "c" }],
    [opened, { ...opened, tool: "c" }, tool],
    [{ ...opened, tool: "c" }, tool],
  ]) {
    const made = book(...told);
    assert.deepEqual(only(made, "tool").map((one) => one.terminals), [["t-1"]]);
    assert.deepEqual(only(made, "terminal").map((one) => [one.terminal, one.quiet]), [["t-1", true]], "one line, and a quiet one");
  }
});

test("a terminal that no tool shows has a line; it may be told of in a later turn", () => {
  const made = book({ kind: "terminal_opened", terminal: "t-1" }, { kind: "terminal_opened", terminal: "t-2", tool: "elsewhere" });
  made.add(events({ kind: "terminal_closed", terminal: "t-1", exit_code: 3, turn: "t2" }));
  assert.deepEqual(only(made, "terminal").map((one) => [one.terminal, one.exit, one.quiet]), [["t-1", 3, false], ["t-2", undefined, true]]);
});

test("what an agent offers is no entry", () => {
  assert.deepEqual(kinds(book({ kind: "started" }, { kind: "offered", quiet: true, models: [{ id: "m" }] })), ["prompt"]);
});

test("what a cancelled turn was doing was stopped: it did not fail", () => {
  const calls: Bare[] = [
    { kind: "tool_started", id: "1", name: "Bash" },
    { kind: "tool_ended", id: "1", ok: false },
    { kind: "tool_started", id: "2", name: "Bash" },
    { kind: "tool_started", id: "3", name: "Bash" },
    { kind: "tool_ended", id: "2", ok: false },
  ];
  const ends = (outcome: string) => only(book(...calls, { kind: "ended", outcome }), "tool").map(({ end }) => end && [end.ok, end.stopped]);
  assert.deepEqual(ends("cancelled"), [[false, false], [false, true], [false, true]]);
  assert.deepEqual(ends("failed"), [[false, false], [false, false], null]);
});
