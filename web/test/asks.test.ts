import assert from "node:assert/strict";
import { test } from "node:test";
import { askMark, outcome } from "../src/journal/asks";
import type { Ask } from "../src/journal/book";

const ask: Ask = {
  kind: "ask", key: "1", seq: 1, at: 100, turn: "t1", quiet: false, id: "q1", tool: "shell", category: "shell", title: "", input: { command: "make\nmake check" },
  diff: "", files: [], options: [], reason: "", expires: 400, answer: null,
};
const answered = (option: string, by: string, message = "") => ({ ...ask, answer: { option, by, message, at: 130 } });
const mark = (one: Ask, over = false) => {
  const { until, outcome, says } = askMark(one, over, "/work", "Ada");
  return [until, outcome, says];
};

test("an ask is marked from its beginning to its answer, by what came of it", () => {
  assert.deepEqual(mark(ask), [null, "open", "asks to run a command: make…"]);
  assert.deepEqual(mark(answered("allow_once", "Ada")), [130, "allowed", "asked to run a command: make…. Allowed by you"]);
  assert.deepEqual(mark(answered("allow_always", "a rule")), [130, "allowed", "asked to run a command: make…. Allowed for this session by a rule"]);
  assert.deepEqual(mark(answered("reject_once", "time limit"), true), [130, "denied", "asked to run a command: make…. Denied: nobody answered in time"]);
  assert.deepEqual(mark(answered("cancelled", "cancelled"), true), [130, "dropped", "asked to run a command: make…. Not answered (the turn was ended)"]);
  assert.deepEqual(mark(ask, true), [100, "dropped", "asked to run a command: make…, and was not answered"]);
});

test("what somebody said to an ask is kept, what the time limit says is said already", () => {
  assert.equal(outcome(answered("reject_once", "Ada", "use make clean").answer, "Ada").why, "use make clean");
  assert.equal(outcome(answered("reject_once", "time limit", "nobody answered in time").answer, "Ada").why, "");
});

test("an ask about files names them; long words are cut", () => {
  const edit = { ...ask, tool: "edit", category: "edit", title: "Edit it", input: {}, diff: "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n" };
  assert.equal(mark(edit)[2], "asks to edit a file: x.py");
  assert.equal(mark({ ...ask, input: { command: "x".repeat(300) } })[2], `asks to run a command: ${"x".repeat(100)}…`);
});
