import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { age, bytes, clockTime, cost, count, duration, plural, running, shellWord, short, usageTitle } from "../src/lib/format";
import { ofSession, titleOf } from "../src/lib/marks";
import { grouped } from "../src/sessions/filter";
import { behind, colorOf } from "../src/start/profiles";
import { readiness } from "../src/start/readiness";
import { outcome } from "../src/journal/asks";
import { KNOWN_TOOLS, otherInput, pausesOf, plainOutput, secondsAtWork, shown, describeAsk } from "../src/journal/tools";
import type { Ask, Tool } from "../src/journal/book";
import type { AgentReport, ProfileView, SessionView, TurnView } from "../src/words";

const session = (id: string, more: Partial<SessionView> = {}): SessionView =>
  ({ id, agent: "claude", folder: "/src/paddock", state: "idle", title: id, name: null, turn: null, used_at: 1, model: null, queued: 0, ...more }) as SessionView;
const ended = (more: Partial<TurnView>): TurnView => ({ state: "ended", outcome: "done", error: null, ended_at: 5, created_at: 1, prompt: "", ...more }) as TurnView;
const tool = (more: Partial<Tool>): Tool =>
  ({ kind: "tool", key: "1", seq: 1, at: 0, turn: "t", quiet: false, id: "1", name: "Bash", category: "", title: "", input: null, files: [], depth: 0, end: null, ...more }) as Tool;
const end = { ok: true, output: "", diff: "", exit_code: null, duration_ms: 3, denied: false, stopped: false };

test("figures as people read them", () => {
  assert.deepEqual([age(40), age(61), age(7300), age(200_000)], ["40s", "1m", "2h", "2d"]);
  assert.deepEqual([duration(12), duration(12_400), duration(108_000), duration(7_500_000)], ["12ms", "12.4s", "1m 48s", "2h 05m"]);
  assert.deepEqual([running(134), running(3723)], ["2:14", "1:02:03"]);
  assert.deepEqual([cost(0), cost(0.0004), cost(0.003), cost(12.3)], ["$0.00", "< $0.001", "$0.003", "$12.30"]);
  assert.deepEqual([count(812), count(41_200), count(3_100_000)], ["812", "41.2k", "3.1M"]);
  assert.deepEqual([bytes(5), bytes(2500)], ["5 B", "2.5 kB"]);
  assert.equal(plural(1, "line") + plural(1200, "line"), "1 line1,200 lines");
  assert.equal(short("/home/ana/src", "/home/ana") + short("/home/anabel", "/home/ana"), "~/src/home/anabel");
  assert.equal(usageTitle({ input_tokens: 1200, cached_tokens: 3 }), "input 1,200, of which cached 3");
  assert.match(clockTime(0, 0), /^\d\d:\d\d$/);
});

test("a name is one word of a shell, whatever is in it", () => {
  assert.deepEqual(["k3", "my work", "it's", "-n", ""].map(shellWord), ["k3", "'my work'", `'it'"'"'s'`, "'-n'", "''"]);
});

test("sessions that want a person come first; the last words decide the shape of the rest", () => {
  const rows = [session("a"), session("b", { state: "busy" }), session("c", { state: "asking" }), session("d", { turn: ended({ ended_at: 9 }) })];
  assert.deepEqual(grouped(rows, "").map((group) => [group.name, group.sessions.map((row) => row.id)]), [["Asking", ["c"]], ["Busy", ["b"]], ["Earlier", ["d", "a"]]]);
  assert.deepEqual(ofSession(session("x", { turn: ended({ outcome: "unproven" }) })), { mark: "unproven", word: "unproven" });
  assert.deepEqual(ofSession(session("x", { turn: ended({ outcome: "failed", error: { kind: "limited", message: "" } }) })), { mark: "failed", word: "limited" });
  assert.equal(titleOf(session("x", { title: "", turn: ended({ prompt: "first\nsecond" }) })), "first");
});

test("a filter takes words, states, agents and folders", () => {
  const rows = [session("fix the gate"), session("b", { state: "busy", agent: "codex" }), session("c", { turn: ended({ outcome: "timed_out" }) })];
  const found = (filter: string) => grouped(rows, filter).flatMap((group) => group.sessions.map((row) => row.id));
  assert.deepEqual(found("GATE fix"), ["fix the gate"]);
  assert.deepEqual(found("is:busy"), ["b"]);
  assert.deepEqual(found("is:failed"), ["c"]);
  assert.deepEqual(found("is:timed_out"), ["c"]);
  assert.deepEqual(found("agent:codex in:paddock"), ["b"]);
  assert.deepEqual(found("is:asking"), []);
});

test("tools of all agents in the same words", () => {
  const told = (more: Partial<Tool>) => {
    const is = shown(tool(more), "/w");
    return [is.verb, is.target, is.facts];
  };
  assert.deepEqual(told({ name: "command_execution", category: "shell", title: "ls", end: { ...end, exit_code: 2 } }), ["Run", "ls", "exit 2"]);
  assert.deepEqual(told({ name: "read_file", category: "read", title: "/w/a.py", end: { ...end, output: "1\n2\n" } }), ["Read", "a.py", "2 lines"]);
  assert.deepEqual(told({ name: "write_file", category: "write", title: "/w/a", files: [{ path: "/w/a", change: "add" }], input: { path: "/w/a", content: "x" }, end: { ...end, denied: true, ok: false } }), ["New", "a", "refused"]);
  assert.deepEqual(told({ name: "StructuredOutput", input: { a: 1 } }), ["StructuredOutput", '{"a":1}', ""]);
});

test("an edit without a diff shows its own texts; the input tells what is left", () => {
  const edit = tool({ name: "Edit", category: "edit", title: "/w/a.py", input: { file_path: "/w/a.py", old_string: "a = 1", new_string: "a = 2", replace_all: true }, end });
  const is = shown(edit, "/w");
  assert.deepEqual([is.diffs[0]?.path, is.diffs[0]?.added, is.diffs[0]?.removed], ["a.py", 1, 1]);
  assert.equal(otherInput(edit, is), "replace_all: true");
  assert.deepEqual(shown(tool({ ...edit, end: { ...end, ok: false } }), "/w").diffs, []);
  const camel = tool({ name: "edit", category: "edit", title: "/w/a.py", input: { filePath: "/w/a.py", oldString: "a = 1", newString: "a = 2" }, end });
  assert.deepEqual([shown(camel, "/w").diffs[0]?.path, otherInput(camel, shown(camel, "/w"))], ["a.py", null]);
});

test("output is shown without its escape sequences", () => {
  assert.equal(plainOutput("\x1b[31mred\x1b[0m \x1b]0;title\x07x\r\n"), "red x\n");
});

test("an agent that cannot take a turn says what to do", () => {
  const report = (more: Partial<AgentReport>) => ({ name: "claude", built_in: false, installed: true, login: "yes", install: "npm i x", problem: "", abilities: { resume: true, schema: "no" }, ...more }) as AgentReport;
  assert.deepEqual([readiness(report({}), null).word, readiness(report({}), null).say], ["ready", "resume"]);
  assert.deepEqual(readiness(report({ installed: false }), null).code, "npm i x");
  assert.deepEqual(readiness(report({ login: "no", login_command: "claude auth login" }), null), { ready: false, mark: "limited", word: "log in", say: "Log in first:", code: "claude auth login" });
  assert.deepEqual(readiness(report({ login: "unknown" }), null), { ready: true, mark: "idle", word: "installed", say: "login unknown; resume", code: "" }, "a tick is for what is known");
  assert.equal(readiness(report({ installed: false }), "script").ready, true);
});

const ask = (more: Partial<Ask>): Ask =>
  ({ kind: "ask", key: "1", seq: 1, at: 0, turn: "t", quiet: false, id: "1", tool: "Bash", category: "shell", title: "", input: null, diff: "", files: [], options: [], reason: "", expires: null, answer: null, ...more }) as Ask;

test("what is asked for is shown whole, and once", () => {
  const run = describeAsk(ask({ input: { command: "make\nrm -rf build", timeout: 5 }, title: "make" }), "/src");
  assert.deepEqual([run.action, run.command, run.rest], ["run a command", "make\nrm -rf build", "timeout: 5"]);
  const edit = describeAsk(ask({ tool: "Edit", category: "edit", input: { file_path: "/src/a.py" }, diff: "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n" }), "/src");
  assert.deepEqual([edit.action, edit.diffs.map((diff) => diff.path), edit.rest], ["edit a file", ["a.py"], null]);
  const other = describeAsk(ask({ tool: "mcp__db__drop", category: "mcp", input: { table: "users" } }), "/src");
  assert.deepEqual([other.action, other.what, other.rest], ["use an MCP tool", "", "table: users"]);
});

test("no part of an input stands there twice, and none is left out", () => {
  const parts = (more: Partial<Ask>) => {
    const { action, command, what, rest } = describeAsk(ask(more), "/src");
    return [action, command, what, rest];
  };
  const issue = { title: "Leak", body: "It leaks.\nBadly." };
  assert.deepEqual(parts({ tool: "mcp__github__create_issue", category: "mcp", title: "Leak", input: issue }), ["use an MCP tool", "", "Leak", "body: It leaks.\nBadly."]);
  assert.deepEqual(parts({ tool: "write_memory", category: "write_memory", input: { fact: "x" } }), ["use a tool", "", "", "fact: x"], "a name decides nothing");
  assert.deepEqual(parts({ tool: "Read", category: "read", title: "/src/a.py", input: { file_path: "/src/a.py", limit: 5 } }), ["read a file", "", "a.py", "limit: 5"]);
  const long = `https://x.example/?q=${"y".repeat(300)}`;
  assert.deepEqual(parts({ tool: "WebFetch", category: "web", title: long.slice(0, 200), input: { url: long, prompt: "sum" } }), ["use the network", "", long, "prompt: sum"]);
  assert.deepEqual(parts({ input: { command: "ls", cmd: "rm -rf /" } }), ["run a command", "ls", "", "cmd: rm -rf /"]);
  assert.deepEqual(parts({ tool: "x", category: "x", title: "Do it", input: ["a", 1] }), ["use a tool", "", "Do it", '[\n  "a",\n  1\n]']);
});

test("the page has words for each of ostler's", () => {
  const [, words = ""] = /^TOOL_WORDS = \((.*)\)$/m.exec(readFileSync(new URL("../../src/ostler/model/turn.py", import.meta.url), "utf8")) ?? [];
  assert.deepEqual(KNOWN_TOOLS, [...words.matchAll(/"(\w+)"/g)].map(([, word]) => word));
});

test("how an ask was answered, and by whom", () => {
  const words = (option: string, by: string) => Object.values(outcome({ option, by }, "Ana")).join("");
  assert.equal(words("allow_once", "Ana"), "trueAllowed by you");
  assert.equal(words("allow_always", "Bo"), "trueAllowed for this session by Bo");
  assert.equal(words("reject_once", "rule 2"), "falseDenied by rule 2");
  assert.equal(words("reject_once", "time limit"), "falseDenied: nobody answered in time");
  assert.equal(words("cancelled", "cancelled"), "falseNot answered (the turn was ended)");
});

test("the colour of a profile is one that CSS takes, or none", () => {
  const profile = (more: Partial<ProfileView>): ProfileView => ({ name: "p", agent: "claude", model: null, description: "", color: "", access: null, ...more });
  const colors = ["#0aF", " #00AAff ", "Magenta", "mauve", "red; background: url(x)", "#12345", "constructor", ""].map((color) => colorOf(profile({ color })));
  assert.deepEqual(colors, ["#0af", "#00aaff", "light-dark(#9b2d8f, #ee8fe2)", "", "", "", "", ""]);
  assert.deepEqual([behind(profile({})), behind(profile({ model: "opus" })), behind(profile({ agent: "" }))], ["claude", "claude · opus", "no agent"]);
});

test("the clock of a tool stands still while an ask is open that may be about it", () => {
  const ask = (id: string, at: number, until?: number, turn = "t") =>
    ({ kind: "ask", id, at, turn, answer: until === undefined ? null : { option: "allow_once", by: "", message: "", at: until } }) as Ask;
  const [one, two] = [tool({ id: "one", at: 10 }), tool({ id: "two", at: 12 })];
  const before = ask("before", 4, 11);
  const entries = [before, one, two, ask("two", 15, 20), ask("any", 18, 30), ask("open", 40), ask("elsewhere", 13, 50, "t2")];
  const at = (now: number, of: Tool) => secondsAtWork(of.at, pausesOf(of, entries.filter((entry) => entry.at <= now)), now);
  assert.deepEqual([12, 17, 30, 39, 41, 60].map((now) => at(now, one)), [1, 6, 7, 16, 17, 17]);
  assert.deepEqual([12, 15, 39, 60].map((now) => at(now, two)), [0, 3, 12, 13]);
});
