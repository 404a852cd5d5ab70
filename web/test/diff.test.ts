import assert from "node:assert/strict";
import { test } from "node:test";
import { addedDiff, parseDiff, replacedDiff, type FileDiff } from "../src/lib/diff";

const shown = (file: FileDiff | undefined) =>
  (file?.hunks ?? []).flatMap((hunk) => hunk.lines.map((line) => `${line.sign}${line.number ?? ""}:${line.parts.map((part) => (part.mark ? `[${part.text}]` : part.text)).join("")}`));

test("files, hunks, line numbers; a removed comment is no file header", () => {
  const files = parseDiff(
    ["diff --git a/q.sql b/q.sql", "--- a/q.sql", "+++ b/q.sql", "@@ -4,3 +4,3 @@ create", " keep", "--- old word", "+-- new word", " end", "diff --git a/n b/n", "--- /dev/null", "+++ b/n", "@@ -0,0 +1 @@", "+a", "\\ No newline at end of file", ""].join("\n"),
  );
  assert.deepEqual(files.map((file) => [file.path, file.change, file.added, file.removed]), [["q.sql", "update", 1, 1], ["n", "add", 1, 0]]);
  assert.equal(files[0]?.hunks[0]?.title, "create");
  assert.deepEqual(shown(files[0]), [" 4:keep", "-5:-- [old] word", "+5:-- [new] word", " 6:end"]);
});

test("lines without a header are a diff too; other text is none", () => {
  assert.deepEqual(shown(parseDiff("-one\n+two\n")[0]), ["-1:one", "+1:two"]);
  assert.deepEqual(parseDiff("nothing of the kind\n"), []);
  assert.deepEqual(parseDiff(""), []);
});

test("a binary file is named", () => {
  assert.deepEqual(parseDiff("diff --git a/x.png b/x.png\nBinary files a/x.png and b/x.png differ\n").map((file) => [file.path, file.change]), [["x.png", "binary"]]);
});

test("words are marked in the line that became another, wherever it stands in the block", () => {
  const file = replacedDiff("x", "begin\n  if d.tries >= limit:\n    return GIVE_UP\n", "begin\n  left = spend(now)\n  if left is None:\n    return PARK\n");
  assert.deepEqual(shown(file), [" :begin", "-:  if [d.tries >= limit]:", "-:    return [GIVE_UP]", "+:  left = spend(now)", "+:  if [left is None]:", "+:    return [PARK]"]);
});

test("lines with nothing in common are not marked", () => {
  assert.deepEqual(shown(replacedDiff("x", "alpha beta", "gamma delta")), ["-:alpha beta", "+:gamma delta"]);
});

test("a new text is all added", () => {
  assert.deepEqual(shown(addedDiff("x", "a\n\nb\n")), ["+1:a", "+2:", "+3:b"]);
});

test("very long lines do not take long: only their ends are compared", () => {
  const words = (first: string) => Array.from({ length: 5000 }, (_, i) => `${first}${i}`).join(" ");
  assert.equal(replacedDiff("x", `keep ${words("a")} end`, `keep ${words("b")} end`).removed, 1);
});
