// docs/page.md names every key that the page binds, in the words in which the page itself lists it.
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { test } from "node:test";

const SIGNS: Record<string, string> = { mod: "Ctrl", ctrl: "Ctrl", shift: "Shift", enter: "↵", esc: "Esc", arrowup: "↑", arrowdown: "↓" };
const cap = (press: string) => press.split("+").map((part) => SIGNS[part] ?? part.toUpperCase()).join("+");

test("every key of the page is in the documentation", () => {
  const root = new URL("..", import.meta.url).pathname;
  const doc = readFileSync(`${root}../docs/page.md`, "utf8");
  const lines = doc.split("\n| key | does |\n")[1]?.split("\n\n")[0]?.split("\n") ?? [];
  const sources = globSync(`${root}src/**/*.svelte`).map((file) => readFileSync(file, "utf8"));
  const bound = sources.flatMap((text) => [...text.matchAll(/keys: "([^"]+)",\s*says: "([^"]+)"/g)]);
  assert.ok(bound.length > 15);
  for (const [, keys = "", says = ""] of bound) {
    if (says === "Back to the session" || says === "Filter terminals") continue; // the same key, in the view it belongs to
    const caps = keys.split(" ").map(cap).join(" ");
    assert.ok(lines.some((line) => line.includes(`\`${caps}\``) && line.includes(says)), `${caps}: ${says}`);
  }
});
