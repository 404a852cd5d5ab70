// A tool call in a person's words: verb, target, what came of it. Pure.

import { addedDiff, parseDiff, replacedDiff, type FileDiff } from "../lib/diff";
import { plural } from "../lib/format";
import type { IconName } from "../lib/icons";
import { COMMAND_NAMES, CONTENT_NAMES, NEW_TEXT_NAMES, OLD_TEXT_NAMES, PATCH_NAMES, PATH_NAMES, SEARCH_NAMES } from "../tool_names";
import type { Ask, Entry, Tool } from "./book";

interface Sort {
  verb: string;
  icon: IconName;
  action: string; // what somebody who asks for it wants to do
}

/** By ostler's words for tools, which events carry as `category`. */
const SORTS: Record<string, Sort> = {
  shell: { verb: "Run", icon: "run", action: "run a command" },
  read: { verb: "Read", icon: "file", action: "read a file" },
  edit: { verb: "Edit", icon: "edit", action: "edit a file" },
  write: { verb: "Write", icon: "edit", action: "write a file" },
  search: { verb: "Search", icon: "find", action: "search" },
  web: { verb: "Fetch", icon: "globe", action: "use the network" },
  mcp: { verb: "", icon: "gear", action: "use an MCP tool" },
  plan: { verb: "Plan", icon: "gear", action: "follow a plan" },
  agent: { verb: "Agent", icon: "agent", action: "start an agent" },
};
const OTHER = "use a tool"; // whose own name stands beside it

/** ostler's words that this page has words of its own for. */
export const KNOWN_TOOLS = Object.keys(SORTS);

const TEXTS = [...CONTENT_NAMES, ...OLD_TEXT_NAMES, ...NEW_TEXT_NAMES, ...PATCH_NAMES];
const SUBJECTS = [...PATH_NAMES, ...SEARCH_NAMES];

export interface ToolView {
  verb: string;
  icon: IconName;
  target: string;
  command: string; // what was run, where it ran something
  diffs: FileDiff[];
  facts: string; // "214 lines", "exit 1"
}

export function shown(tool: Tool, folder: string): ToolView {
  const sort = SORTS[tool.category];
  const diffs = diffsOf(tool, sort?.verb, folder);
  const isNew = sort?.verb === "Write" && (tool.files[0]?.change === "add" || diffs[0]?.change === "add");
  return {
    verb: isNew ? "New" : sort?.verb || tool.name,
    icon: sort?.icon ?? "gear",
    target: within(targetOf(tool), folder),
    command: sort?.verb === "Run" ? commandOf(tool) : "",
    diffs,
    facts: factsOf(tool, sort?.verb),
  };
}

export interface AskDescription extends ToolView {
  action: string; // "run a command"
  what: string; // what it is about, in full, where that is no command and no diff
  rest: string | null; // of the input, what is not shown otherwise
}

/** What an agent asks for, in full, and each part of it once. */
export function describeAsk(ask: Ask, folder: string): AskDescription {
  const end = ask.diff ? { ok: true, output: "", diff: ask.diff, exit_code: null, duration_ms: null, denied: false, stopped: false } : null;
  const tool: Tool = { ...ask, kind: "tool", name: ask.tool, depth: 0, end, terminals: [] };
  const has = shown(tool, folder);
  const fields = fieldsOf(ask.input);
  const paths = has.diffs.map((diff) => diff.path); // stand above their diffs
  const about = has.command || paths.length > 0 ? null : subject(ask, fields);
  const told = (name: string, value: string) =>
    name === about?.field || paths.includes(within(value, folder)) || (COMMAND_NAMES.includes(name) ? field(ask.input, name) === has.command : shownFields(has).has(name));
  const rest = fields.filter(([name, value]) => !told(name, value));
  return {
    ...has,
    action: SORTS[ask.category]?.action ?? OTHER,
    what: within(about?.text ?? "", folder),
    rest: rest.map(([name, value]) => (name ? `${name}: ${value}` : value)).join("\n") || null,
  };
}

/** What is asked about: the field that the title was made of, uncut; a title of the agent's own; the usual fields. */
function subject(ask: Ask, fields: [string, string][]): { text: string; field?: string } | null {
  const title = ask.title.replace(/…$/, "");
  const found = title ? fields.find(([, value]) => value.trim().startsWith(title)) : fields.find(([name]) => SUBJECTS.includes(name));
  if (found) return { field: found[0], text: found[1] };
  return ask.title ? { text: ask.title } : null;
}

/** The fields of an input as text; an input that has none is one without a name. */
function fieldsOf(input: unknown): [string, string][] {
  if (input === null || input === undefined || input === "") return [];
  if (typeof input !== "object" || Array.isArray(input)) return [["", asText(input)]];
  return Object.entries(input).flatMap(([name, value]) => (value === null || value === "" ? [] : [[name, asText(value)] as [string, string]]));
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, typeof value === "object" ? 2 : 0);
}

/** Fields of an input that stand in its command or its diffs. */
function shownFields(has: ToolView): Set<string> {
  const told = has.command ? COMMAND_NAMES : [];
  return new Set(has.diffs.length > 0 ? [...told, ...TEXTS] : told);
}

/** The input without what is shown in another way: null where nothing is left to tell. */
export function otherInput(tool: Tool, has: ToolView): string | null {
  if (tool.input === null || tool.input === undefined) return null;
  if (typeof tool.input !== "object" || Array.isArray(tool.input)) return JSON.stringify(tool.input, null, 2);
  const told = shownFields(has);
  const rest = Object.entries(tool.input).filter(
    ([name, value]) => !told.has(name) && String(value) !== tool.title && value !== null && value !== "",
  );
  if (rest.length === 0) return null;
  return rest.map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join("\n");
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
    field(tool.input, ...COMMAND_NAMES, ...SUBJECTS, "description") ||
    tool.files[0]?.path ||
    (tool.input == null ? "" : JSON.stringify(tool.input));
  return (told.split("\n", 1)[0] ?? "").slice(0, 300);
}

function commandOf(tool: Tool): string {
  return field(tool.input, ...COMMAND_NAMES) || tool.title;
}

function diffsOf(tool: Tool, verb: string | undefined, folder: string): FileDiff[] {
  if (tool.end?.diff) return parseDiff(tool.end.diff);
  if (tool.end && !tool.end.ok) return [];
  const path = within(field(tool.input, ...PATH_NAMES) || tool.title, folder);
  const before = field(tool.input, ...OLD_TEXT_NAMES);
  const after = field(tool.input, ...NEW_TEXT_NAMES);
  if (verb === "Edit" && (before || after)) return [replacedDiff(path, before, after)];
  const content = field(tool.input, ...CONTENT_NAMES);
  if (verb === "Write" && content) return [addedDiff(path, content)];
  return [];
}

function factsOf(tool: Tool, verb: string | undefined): string {
  if (!tool.end) return "";
  if (tool.end.stopped) return "stopped";
  if (tool.end.denied) return "refused";
  if (tool.end.exit_code !== null) return `exit ${tool.end.exit_code}`;
  if ((verb === "Read" || verb === "Search") && tool.end.ok && tool.end.output) return plural(lineCount(tool.end.output), "line");
  return "";
}

/** The asks that stop a tool's clock: those about it, and those that are about no tool in particular. */
export function pausesOf(tool: Tool, entries: Entry[]): Ask[] {
  const ofTurn = entries.filter((entry) => entry.turn === tool.turn);
  const others = new Set(ofTurn.filter((entry) => entry.kind === "tool" && entry.id !== tool.id).map((entry) => (entry as Tool).id));
  return ofTurn.filter((entry): entry is Ask => entry.kind === "ask" && !others.has(entry.id));
}

/** How long a tool has been at work, in seconds: without the time in which an ask was open. */
export function secondsAtWork(since: number, asks: Ask[], now: number): number {
  let worked = 0;
  for (const ask of asks) {
    worked += Math.max(0, ask.at - since);
    since = Math.max(since, ask.answer?.at ?? now);
  }
  return worked + Math.max(0, now - since);
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
