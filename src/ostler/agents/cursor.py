"""cursor: Cursor's command line agent. One turn is `cursor-agent -p … -- PROMPT`.

Written from its documentation, not measured: it is in no package registry.
"""

from typing import Any

from msgspec import structs

from ostler.access import Access
from ostler.agents.acp.face import acp_face
from ostler.agents.acp.protocol import Acp
from ostler.agents.adapter import Agent, OwnSandbox
from ostler.agents.failures import kind_of
from ostler.agents.launches import (
    ARGUMENT_LIMIT,
    SYSTEM_FIRST,
    literal,
    refuse_tool_lists,
    refuse_untrusted,
    with_attachments,
)
from ostler.agents.reader import Reader
from ostler.agents.tool_input import title_of
from ostler.agents.values import Record, table, tables, text
from ostler.model import (
    AnyEvent,
    Denial,
    FileChange,
    Host,
    Launch,
    Plan,
    PlanStep,
    Raw,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
)

EDITS = ("write", "edit", "delete")
ACCESS: dict[Access, tuple[str, ...]] = {
    "read": ("--mode=plan",),
    "write": ("--force", "--sandbox=enabled"),
    "full": ("--force", "--sandbox=disabled"),
}


# -- launch -----------------------------------------------------------------------------------------


def launch(turn: Turn, host: Host) -> Launch:
    refuse_tool_lists(turn)
    refuse_untrusted(turn, host)
    flags = ["-p", "--output-format=stream-json", "--trust", *ACCESS[turn.access]]
    flags += [flag for flag in ("--stream-partial-output",) if flag in host.help]
    if turn.model:
        flags.append(f"--model={turn.model}")
    if turn.resume:
        flags.append(f"--resume={turn.agent_session}")
    prompt, folder_files, notices = with_attachments(literal(turn), turn.attachments), {}, []
    if turn.system and "AGENTS.md" not in host.folder_names:
        folder_files["AGENTS.md"] = turn.system
    elif turn.system and turn.first:
        prompt = f"{turn.system}\n\n{prompt}"
        notices.append(f"the folder has an AGENTS.md: {SYSTEM_FIRST}")
    prompt, files = _handed_over(prompt, host)
    return Launch(
        argv=(host.executable, *flags, "--", prompt),
        files=files,
        folder_files=folder_files,
        notices=tuple(notices),
    )


def _handed_over(prompt: str, host: Host) -> tuple[str, dict[str, bytes]]:
    """The prompt is an argument: a long one lies in a private file, and the argument says so."""
    data, path = prompt.encode(), f"{host.private}/prompt.txt"
    if len(data) <= ARGUMENT_LIMIT:
        return prompt, {}
    return f"The prompt is long and lies in {path}. Read that file whole, then do what it says.", {path: data}


def dialog_launch(turn: Turn, host: Host) -> Launch:
    refuse_tool_lists(turn)
    refuse_untrusted(turn, host)
    return Launch(argv=(host.executable, *([f"--model={turn.model}"] if turn.model else []), "acp"))


# Without --force it asks for all it does; what it may never do is refused there.
ACP = Acp(modes={"read": "plan", "write": "agent", "full": "agent"}, safe_modes=("plan",), model_by_flag=True)


# -- reading ----------------------------------------------------------------------------------------


class CursorReader(Reader):
    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.pending = ""  # deltas whose whole text has not come yet
        self.thought = ""

    def read(self, record: Record) -> list[AnyEvent]:
        match record.get("type"), record.get("subtype"):
            case "system", "init":
                self.agent_session = text(record.get("session_id")) or None
                self.model = text(record.get("model")) or None
                return [self.started()]
            case "user", _:
                return []
            case "assistant", _:
                return self._assistant(record)
            case "thinking", _:
                return self._thinking(record)
            case "tool_call", "started":
                return self._tool_started(record)
            case "tool_call", "completed":
                return self._tool_ended(record)
            case "result", _:
                return self._result(record)
            case _:
                return [Raw(record=record)]

    def flush(self) -> list[AnyEvent]:
        thought, self.thought = self.thought, ""
        owed: list[AnyEvent] = [Thought(text=thought)] if thought else []
        return [*owed, *self._owed(), *super().flush()]

    def _owed(self) -> list[AnyEvent]:
        whole, self.pending = self.pending, ""
        return [self.whole(whole)] if whole else []

    def _assistant(self, record: Record) -> list[AnyEvent]:
        """Deltas carry `timestamp_ms`; the whole text follows, before a tool with a `model_call_id`."""
        blocks = tables(table(record.get("message")).get("content"))
        said = "".join(text(b.get("text")) for b in blocks if b.get("type") == "text")
        if not said:
            return []
        if "timestamp_ms" in record and "model_call_id" not in record:
            self.pending += said
            return [TextDelta(text=said)]
        again = not self.pending and said == self.text
        self.pending = ""
        return [] if again else [self.whole(said)]

    def _thinking(self, record: Record) -> list[AnyEvent]:
        thought = text(record.get("text"))
        if record.get("subtype") == "completed":
            whole, self.thought = thought or self.thought, ""
            return [Thought(text=whole)] if whole else []
        self.thought += thought
        return [ThoughtDelta(text=thought)] if thought else []

    def _tool_started(self, record: Record) -> list[AnyEvent]:
        name, call = _call(record)
        args = call.get("args")
        id, files = text(record.get("call_id")), _files(name, args)
        started = ToolStarted(id=id, name=name, title=title_of(name, args), input=args, files=files)
        return [*self._owed(), self.tool_started(started), *_plan(name, args)]

    def _tool_ended(self, record: Record) -> list[AnyEvent]:
        name, call = _call(record)
        id, result = text(record.get("call_id")), table(call.get("result"))
        success, refused = table(result.get("success")), result.get("rejected") or result.get("permissionDenied")
        title = title_of(name, call.get("args"))
        if refused:
            reason = str(refused.get("reason", "")) if isinstance(refused, dict) else str(refused)
            self.denied.append(Denial(tool=name, target=title, access=self._remedy(name), reason=reason))
        code = success.get("exitCode")
        error = table(result.get("error"))
        output = "".join(text(success.get(key)) for key in ("stdout", "stderr", "content"))
        ended = ToolEnded(
            id=id,
            ok="success" in result and code in (None, 0),
            output=output or text(error.get("message")) or text(error.get("errorMessage")),
            diff=text(success.get("diffString")) or text(success.get("diff")),
            files=_files(name, call.get("args")),
            exit_code=code if isinstance(code, int) else None,
            denied=bool(refused),
        )
        return [self.tool_ended(ended)]

    def _remedy(self, name: str) -> Access | None:
        if self.turn.access == "full":
            return None
        return "write" if self.turn.access == "read" and name in EDITS else "full"

    def _result(self, record: Record) -> list[AnyEvent]:
        events = self._owed()
        said = text(record.get("result"))
        self.agent_session = text(record.get("session_id")) or self.agent_session
        self.usage = _usage(record.get("usage"))
        if record.get("is_error") or record.get("subtype") != "success":
            self.fail(f"result: {record.get('subtype')}", kind_of(None, said), said or "cursor reported an error")
            return events
        self.text = said or self.text
        self.succeed("result: success")
        return events


def _call(record: Record) -> tuple[str, Record]:
    """The kind and the body of a tool call: {"shellToolCall": {"args": …, "result": …}}."""
    calls = table(record.get("tool_call"))
    key = next((key for key in calls if key.endswith("ToolCall")), next(iter(calls), ""))
    return key.removesuffix("ToolCall"), table(calls.get(key))


def _files(name: str, args: Any) -> tuple[FileChange, ...]:
    if name in EDITS and isinstance(args, dict) and isinstance(args.get("path"), str):
        return (FileChange(path=args["path"], change="delete" if name == "delete" else "update"),)
    return ()


def _plan(name: str, args: Any) -> list[AnyEvent]:
    todos = args.get("todos") if isinstance(args, dict) and "todo" in name.lower() else None
    if not isinstance(todos, list):
        return []
    return [Plan(steps=tuple(_step(todo) for todo in todos if isinstance(todo, dict)))]


def _step(todo: Record) -> PlanStep:
    status = str(todo.get("status", "")).lower()
    if "progress" in status:
        return PlanStep(text=text(todo.get("content")), status="active")
    done = "complete" in status or "cancel" in status
    return PlanStep(text=text(todo.get("content")), status="done" if done else "pending")


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None

    def count(*keys: str) -> int | None:
        return next((usage[key] for key in keys if isinstance(usage.get(key), int)), None)

    return Usage(
        input_tokens=count("input_tokens", "inputTokens"),
        output_tokens=count("output_tokens", "outputTokens"),
        cached_tokens=count("cache_read_tokens", "cacheReadTokens"),
    )


AGENT = Agent(
    name="cursor",
    title="Cursor CLI",
    monogram="cu",
    hue=310,
    nested=("CURSOR_AGENT", "CURSOR_TRACE_ID"),
    binaries=("cursor-agent",),  # newer builds are also called `agent`: too common a name to take
    install="curl https://cursor.com/install -fsS | bash",
    dialog=structs.replace(
        acp_face(ACP, dialog_launch, access="`acp`; not measured"), mcp=("stdio",)
    ),  # all of ACP take these
    launch=launch,
    reader=CursorReader,
    models=("cursor*", "composer*"),
    needs=("--output-format", "--trust", "--mode", "--force", "--sandbox", "--resume"),
    env=("CURSOR_*",),
    drop=("NODE_OPTIONS", "CURSOR_AGENT", "CURSOR_TRACE_ID"),  # its own node refuses flags it does not know
    keys=("CURSOR_API_KEY",),
    private=(".cursor", ".config/cursor"),
    login_command="cursor-agent login",
    login_elsewhere=True,
    sandbox=OwnSandbox(check=()),
    folder_names=("AGENTS.md",),
    project_config=(".cursor", ".mcp.json"),
    guards=(".cursorrules",),
    left_out="`denied`; not measured",
    access={
        "read": "--mode=plan",
        "write": "--force --sandbox=enabled",
        "full": "--force --sandbox=disabled",
    },
    unconfined={
        "read": "not measured: whether allow rules of your own reach further",
        "write": "not measured: what its sandbox holds back",
        "full": "everything",
    },
    tools={
        **{"shell": ("shell",), "read": ("read",), "write": ("write",), "edit": ("edit", "delete"), "mcp": ("mcp",)},
        **{"search": ("grep", "glob", "ls", "semSearch"), "web": ("fetch", "webFetch", "webSearch")},
        **{"plan": ("updateTodos", "readTodos", "todo"), "agent": ("task",)},
    },
    system="file",
    images="path",
    deltas=True,
)
