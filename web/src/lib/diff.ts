// Unified diffs, read and marked word by word. Pure.

export interface DiffLine {
  sign: " " | "+" | "-";
  number: number | null; // in the new file; for a removed line in the old one
  parts: { text: string; mark: boolean }[];
}
export interface Hunk {
  title: string; // what follows the second @@: the function it is in
  lines: DiffLine[];
}
export interface FileDiff {
  path: string;
  change: "add" | "update" | "delete" | "binary";
  hunks: Hunk[];
  added: number;
  removed: number;
}

export const MANY = 400; // lines that are shown of a diff before somebody asks for all of them

export function lineTotal(file: FileDiff): number {
  return file.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
}

/** The files of a unified diff. What is no diff comes back as no files. */
export function parseDiff(text: string): FileDiff[] {
  const files: FileDiff[] = [];
  const lines = text.endsWith("\n") ? text.slice(0, -1).split("\n") : text.split("\n");
  let file: FileDiff | null = null;
  let hunk: Hunk | null = null;
  let left = { old: 0, new: 0 }; // lines that the hunk still has to give: "--- x" may be a removed "-- x"
  let at = { old: 0, new: 0 };
  const open = (path: string): FileDiff => {
    const opened: FileDiff = { path, change: "update", hunks: [], added: 0, removed: 0 };
    files.push(opened);
    hunk = null;
    left = { old: 0, new: 0 };
    return opened;
  };

  for (const line of lines) {
    const inside = hunk !== null && (left.old > 0 || left.new > 0);
    if (!inside && line.startsWith("diff --git ")) {
      file = open(/ b\/(.*)$/.exec(line)?.[1] ?? line.slice(11));
    } else if (!inside && line.startsWith("--- ")) {
      if (file === null || file.hunks.length > 0) file = open(name(line.slice(4)));
      if (line.startsWith("--- /dev/null")) file.change = "add";
    } else if (!inside && line.startsWith("+++ ") && file) {
      if (line.startsWith("+++ /dev/null")) file.change = "delete";
      else file.path = name(line.slice(4));
    } else if (!inside && line.startsWith("Binary files") && file) {
      file.change = "binary";
    } else if (!inside && line.startsWith("@@")) {
      file ??= open("");
      const head = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/.exec(line);
      at = { old: Number(head?.[1] ?? 1), new: Number(head?.[3] ?? 1) };
      left = { old: Number(head?.[2] ?? 1), new: Number(head?.[4] ?? 1) };
      hunk = { title: head?.[5] ?? "", lines: [] };
      file.hunks.push(hunk);
    } else if (/^[-+ ]/.test(line) || (inside && line === "")) {
      if (file === null || (!inside && hunk === null)) {
        if (line.startsWith(" ") && file === null) continue;
        file ??= open(""); // lines without any header: some agents give no more
        hunk = { title: "", lines: [] };
        file.hunks.push(hunk);
        at = { old: 1, new: 1 };
      }
      if (!hunk) continue;
      const sign = (line[0] ?? " ") as DiffLine["sign"];
      hunk.lines.push({ sign, number: sign === "-" ? at.old : at.new, parts: [{ text: line.slice(1), mark: false }] });
      if (sign !== "+") (at.old++, left.old--);
      if (sign !== "-") (at.new++, left.new--);
      if (sign === "+") file.added++;
      if (sign === "-") file.removed++;
    }
  }
  for (const { hunks } of files) for (const { lines } of hunks) markChanges(lines);
  return files.filter((found) => found.hunks.length > 0 || found.change !== "update");
}

/** A text that is wholly new, as a diff. */
export function addedDiff(path: string, content: string): FileDiff {
  const texts = content.replace(/\n$/, "").split("\n");
  const lines = texts.map((text, i): DiffLine => ({ sign: "+", number: i + 1, parts: [{ text, mark: false }] }));
  return { path, change: "add", hunks: [{ title: "", lines }], added: lines.length, removed: 0 };
}

/** One text replaced by another, as a diff; where in the file they stand is not known. */
export function replacedDiff(path: string, before: string, after: string): FileDiff {
  const old = before === "" ? [] : before.replace(/\n$/, "").split("\n");
  const fresh = after === "" ? [] : after.replace(/\n$/, "").split("\n");
  const [head, tail] = shared(old, fresh);
  const line = (sign: DiffLine["sign"]) => (text: string): DiffLine => ({ sign, number: null, parts: [{ text, mark: false }] });
  const gone = old.slice(head, old.length - tail).map(line("-"));
  const come = fresh.slice(head, fresh.length - tail).map(line("+"));
  const lines = [...fresh.slice(0, head).map(line(" ")), ...gone, ...come, ...fresh.slice(fresh.length - tail).map(line(" "))];
  markChanges(lines);
  return { path, change: "update", hunks: [{ title: "", lines }], added: come.length, removed: gone.length };
}

function name(header: string): string {
  return header.replace(/\t.*$/, "").replace(/^[ab]\//, "");
}

// -- words

const LONGEST = 400; // words in a line beyond which only its ends are compared
const LIKE = 0.35; // less alike are two different lines: marking nearly all of them would tell nothing

/** Marks the words that differ in removed lines and the added lines which replace them. */
function markChanges(lines: DiffLine[]): void {
  for (let i = 0; i < lines.length; ) {
    if (lines[i]?.sign !== "-") {
      i++;
      continue;
    }
    const gone = run(lines, i, "-");
    const come = run(lines, i + gone.length, "+");
    for (const [from, to] of partners(gone, come)) markPair(from, to);
    i += gone.length + come.length;
  }
}

function run(lines: DiffLine[], from: number, sign: string): DiffLine[] {
  let to = from;
  while (lines[to]?.sign === sign) to++;
  return lines.slice(from, to);
}

/** Removed lines and what became of them, in order. Of two long blocks only lines at the same place are compared. */
function partners(gone: DiffLine[], come: DiffLine[]): [DiffLine, DiffLine][] {
  const pairs: [DiffLine, DiffLine][] = [];
  const near = gone.length * come.length <= 900;
  let next = 0;
  gone.forEach((line, n) => {
    const among = near ? come.slice(next) : come.slice(n, n + 1);
    const scores = among.map((other) => likeness(words(line), words(other)));
    const best = scores.indexOf(Math.max(...scores));
    const partner = among[best];
    if (partner === undefined || (scores[best] ?? 0) < LIKE) return;
    pairs.push([line, partner]);
    if (near) next += best + 1;
  });
  return pairs;
}

/** How much of two lines is the same, from 0 to 1; a common beginning and end count for more. */
function likeness(old: string[], fresh: string[]): number {
  const [head, tail] = shared(old, fresh);
  const ends = weight(old.slice(0, head)) > 0 && weight(old.slice(old.length - tail)) > 0;
  const { old: same } = common(old, fresh, head, tail);
  const most = Math.max(weight(old), weight(fresh));
  return most === 0 ? 0 : weight(old.filter((_, i) => same.has(i))) / most + (ends ? 0.25 : 0);
}

function markPair(gone: DiffLine, come: DiffLine): void {
  const old = words(gone);
  const fresh = words(come);
  const same = common(old, fresh, ...shared(old, fresh));
  gone.parts = parts(old, same.old);
  come.parts = parts(fresh, same.fresh);
}

function words(line: DiffLine): string[] {
  return line.parts.map((part) => part.text).join("").match(/\w+|\s+|[^\w\s]/g) ?? [];
}

function weight(found: string[]): number {
  return found.reduce((sum, word) => sum + word.trim().length, 0);
}

/** How many items two lists share at their beginning and at their end. */
function shared<T>(a: T[], b: T[]): [number, number] {
  const most = Math.min(a.length, b.length);
  let head = 0;
  while (head < most && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < most - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  return [head, tail];
}

/** The indexes of a longest common subsequence, beginning and end given. */
function common(old: string[], fresh: string[], head: number, tail: number) {
  const same = { old: new Set<number>(), fresh: new Set<number>() };
  const keep = (i: number, j: number) => (same.old.add(i), same.fresh.add(j));
  for (let i = 0; i < head; i++) keep(i, i);
  for (let i = 1; i <= tail; i++) keep(old.length - i, fresh.length - i);
  const n = old.length - head - tail;
  const m = fresh.length - head - tail;
  if (n > LONGEST || m > LONGEST || n === 0 || m === 0) return same;
  const table = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  const at = (i: number, j: number) => table[i]?.[j] ?? 0;
  for (let i = n - 1; i >= 0; i--)
    for (let j = m - 1; j >= 0; j--)
      table[i]![j] = old[head + i] === fresh[head + j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  for (let i = 0, j = 0; i < n && j < m; ) {
    if (old[head + i] === fresh[head + j]) keep(head + i++, head + j++);
    else if (at(i + 1, j) >= at(i, j + 1)) i++;
    else j++;
  }
  return same;
}

/** Words of a kind are one part; a space or a dot between two marked words is marked with them. */
function parts(found: string[], same: Set<number>): DiffLine["parts"] {
  const made: DiffLine["parts"] = [];
  const marked = (i: number) => i >= 0 && i < found.length && !same.has(i);
  found.forEach((text, i) => {
    const joint = /^[\s.]$/.test(text) && marked(i - 1) && marked(i + 1);
    const mark = marked(i) || joint;
    const last = made.at(-1);
    if (last && last.mark === mark) last.text += text;
    else made.push({ text, mark });
  });
  return made;
}
