// A tool call in a person's words: verb, target, what came of it. Agents name their tools differently. Pure.

import { addedDiff, parseDiff, replacedDiff, type FileDiff } from "../lib/diff";
import { plural } from "../lib/format";
import type { IconName } from "../lib/icons";
import type { Ask, Tool } from "./book";

interface Sort {
  verb: string;
  icon: IconName;
  is: RegExp;
}

const SORTS: Sort[] = [
  { verb: "Run", icon: "run", is: /^(bash|shell|sh|exec|command|command_execution|local_shell.*|run|run_.*command|run_in_terminal|terminal)$/ },
  { verb: "Read", icon: "file", is: /^(read|read_.*|view|cat|open|open_file|notebookread)$/ },
  { verb: "Edit", icon: "edit", is: /^(edit|edit_.*|multiedit|replace|str_replace.*|apply_patch|patch|file_change|notebookedit|update)$/ },
  { verb: "Write", icon: "edit", is: /^(write|write_.*|create|create_.*)$/ },
  { verb: "Delete", icon: "trash", is: /^(delete|delete_.*|remove|rm)$/ },
  { verb: "Search", icon: "find", is: /^(grep|glob|search|search_.*|find|find_.*|ls|list|list_.*|codebase_search|ripgrep|toolsearch)$/ },
  { verb: "Fetch", icon: "globe", is: /^(webfetch|web_fetch|fetch|websearch|web_search|google_web_search|open_url)$/ },
  { verb: "Agent", icon: "agent", is: /^(task|agent|subagent|spawn_agent|collab.*)$/ },
];

export interface Shown {
  verb: string;
  icon: IconName;
  target: string;
  command: string; // what was run, where it ran something
  diffs: FileDiff[];
  facts: string; // "214 lines", "exit 1"
}

export function shown(tool: Tool, folder: string): Shown {
  const sort = SORTS.find(({ is }) => is.test(plainName(tool.name)));
  const diffs = diffsOf(tool, sort?.verb, folder);
  const isNew = sort?.verb === "Write" && (tool.files[0]?.change === "add" || diffs[0]?.change === "add");
  return {
    verb: isNew ? "New" : (sort?.verb ?? tool.name),
    icon: sort?.icon ?? "gear",
    target: within(targetOf(tool), folder),
    command: sort?.verb === "Run" ? commandOf(tool) : "",
    diffs,
    facts: factsOf(tool, sort?.verb),
  };
}

const WISHES: Record<string, string> = {
  Run: "run a command", Read: "read a file", Edit: "edit a file", Write: "write a file", Delete: "delete a file",
  Search: "search", Fetch: "use the network", Agent: "start an agent",
};

export interface Wish extends Shown {
  wish: string; // "run a command"
  rest: string | null; // of the input, what is not shown otherwise
}

/** What an agent asks for, in full. */
export function wished(ask: Ask, folder: string): Wish {
  const end = ask.diff ? { ok: true, output: "", diff: ask.diff, exit_code: null, duration_ms: null, denied: false } : null;
  const tool: Tool = { ...ask, kind: "tool", name: ask.tool, depth: 0, end, terminals: [] };
  const has = shown(tool, folder);
  const verb = SORTS.find(({ is }) => is.test(plainName(ask.tool)))?.verb ?? "";
  const paths = new Set(has.diffs.map((diff) => diff.path)); // stand above their diffs
  const rest = (otherInput(tool, has) ?? "").split("\n").filter((line) => !paths.has(within(line.replace(/^(file_)?path: /, ""), folder)));
  return { ...has, wish: WISHES[verb] ?? `use ${ask.tool}`, rest: rest.join("\n") || null };
}

/** The input without what is shown in another way: null where nothing is left to tell. */
export function otherInput(tool: Tool, has: Shown): string | null {
  if (tool.input === null || tool.input === undefined) return null;
  if (typeof tool.input !== "object" || Array.isArray(tool.input)) return JSON.stringify(tool.input, null, 2);
  const told = new Set<string>(has.command ? ["command", "cmd"] : []);
  if (has.diffs.length > 0)
    for (const name of ["content", "file_text", "fileText", "old_string", "new_string", "old_str", "new_str", "patch"])
      told.add(name);
  const rest = Object.entries(tool.input).filter(
    ([name, value]) => !told.has(name) && String(value) !== tool.title && value !== null && value !== "",
  );
  if (rest.length === 0) return null;
  return rest.map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join("\n");
}

function plainName(name: string): string {
  return name.toLowerCase().replace(/^.*(__|\.)/, "").replace(/(_tool|tool)$/, "").replace(/-/g, "_");
}

function field(input: unknown, ...names: string[]): string {
  if (typeof input !== "object" || input === null) return "";
  for (const name of names) {
    const value = (input as Record<string, unknown>)[name];
    if (typeof value === "string" && value) return value;
    if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value.join(" ");
  }
  return "";
}

function targetOf(tool: Tool): string {
  const told =
    tool.title ||
    field(tool.input, "file_path", "path", "command", "cmd", "pattern", "query", "url", "description") ||
    tool.files[0]?.path ||
    (tool.input == null ? "" : JSON.stringify(tool.input));
  return (told.split("\n", 1)[0] ?? "").slice(0, 300);
}

function commandOf(tool: Tool): string {
  return field(tool.input, "command", "cmd") || tool.title;
}

function diffsOf(tool: Tool, verb: string | undefined, folder: string): FileDiff[] {
  if (tool.end?.diff) return parseDiff(tool.end.diff);
  if (tool.end && !tool.end.ok) return [];
  const path = within(field(tool.input, "file_path", "path", "filename") || tool.title, folder);
  const before = field(tool.input, "old_string", "old_str");
  const after = field(tool.input, "new_string", "new_str");
  if (verb === "Edit" && (before || after)) return [replacedDiff(path, before, after)];
  const content = field(tool.input, "content", "file_text", "fileText");
  if (verb === "Write" && content) return [addedDiff(path, content)];
  return [];
}

function factsOf(tool: Tool, verb: string | undefined): string {
  if (!tool.end) return "";
  if (tool.end.denied) return "refused";
  if (tool.end.exit_code !== null) return `exit ${tool.end.exit_code}`;
  if ((verb === "Read" || verb === "Search") && tool.end.ok && tool.end.output) return plural(lineCount(tool.end.output), "line");
  return "";
}

export function lineCount(text: string): number {
  const trimmed = text.replace(/\n$/, "");
  return trimmed === "" ? 0 : trimmed.split("\n").length;
}

function within(text: string, folder: string): string {
  const root = `${folder.replace(/\/+$/, "")}/`;
  return folder && text.startsWith(root) ? text.slice(root.length) : text;
}

/** Output of a program without its colours and cursor movements: it is shown as plain text. */
export function plainOutput(text: string): string {
  return text.replace(/\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g, "").replace(/\r\n/g, "\n");
}
