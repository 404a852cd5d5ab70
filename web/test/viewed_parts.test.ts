import assert from "node:assert/strict";
import { test } from "node:test";
import { ViewedParts } from "../src/journal/viewed_parts";

test("what fits is shown at once", () => assert.equal(new ViewedParts().see(0, 300, 300), true));

test("what is scrolled through was shown; what is jumped over was not", () => {
  const through = new ViewedParts();
  assert.deepEqual([through.see(0, 400, 1000), through.see(300, 700, 1000), through.see(600.5, 999.5, 1000)], [false, false, true]);
  const jumped = new ViewedParts();
  assert.deepEqual([jumped.see(0, 400, 1000), jumped.see(600, 1000, 1000), jumped.see(390, 610, 1000)], [false, false, true]);
  const end = new ViewedParts();
  assert.deepEqual([end.see(600, 1000, 1000), end.see(700, 1000, 1000)], [false, false], "the end alone says nothing of the head");
});

test("another layout begins anew, and what is out of view adds nothing", () => {
  const shown = new ViewedParts();
  assert.deepEqual([shown.see(0, 500, 1000), shown.see(500, 1500, 1500), shown.see(0, 500, 1500)], [false, false, true]);
  assert.equal(new ViewedParts().see(20, -40, 10), false);
});
