import assert from "node:assert/strict";
import { test } from "node:test";
import { isShielded, keptBy } from "../src/start/access.ts";
import type { AgentReport } from "../src/words.ts";

const claude = { name: "claude", kept: { read: { by: "wall", why: "" }, write: { by: "sandbox", why: "" } } } as unknown as AgentReport;
const bare = { name: "qwen", kept: { read: { by: "flags", why: "no Landlock" }, write: { by: "denied", why: "no Landlock" } } } as unknown as AgentReport;

test("a shield is for what the machine keeps", () => {
  assert.deepEqual([isShielded(claude, "read"), isShielded(claude, "write"), isShielded(claude, "full")], [true, true, false]);
  assert.deepEqual([isShielded(bare, "read"), isShielded(bare, "write"), isShielded(null, "read")], [false, false, false]);
});

test("what keeps an agent to its access is said in a sentence", () => {
  assert.equal(keptBy(claude, "read"), "Kept to that by a wall in the kernel.");
  assert.equal(keptBy(claude, "write"), "Kept to that by claude's own sandbox.");
  assert.equal(keptBy(bare, "read"), "Kept to that by qwen's own flags alone: no Landlock.");
  assert.equal(keptBy(bare, "write"), "Refused: no Landlock.");
  assert.deepEqual([keptBy(claude, "full"), keptBy(null, "read")], ["", ""]);
});
