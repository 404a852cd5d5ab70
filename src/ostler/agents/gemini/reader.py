"""What `gemini --output-format=stream-json` prints, as events."""

import json
import re

from ostler.access import ACCESS_ORDER, Access
from ostler.agents.failures import kind_of, limited_by, spoken
from ostler.agents.reader import Reader
from ostler.agents.tool_input import title_of
from ostler.agents.values import Record, number, table, text
from ostler.errors import ErrorKind
from ostler.model import (
    AnyEvent,
    Denial,
    Exit,
    FileChange,
    Limited,
    Notice,
    Problem,
    Raw,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
    Verdict,
)

SHELL = "run_shell_command"
# Names with a `*` are prefixes. Nothing confines these to the folder, so `write` has none of them either.
UNCONFINED = (SHELL, "save_memory", "mcp_*", "discovered_tool_*")
REFUSED: dict[Access, tuple[str, ...]] = {
    "read": ("write_file", "replace", *UNCONFINED),
    "write": UNCONFINED,
    "full": (),
}


def refused_tools(access: Access, walled: bool) -> tuple[str, ...]:
    """What an access takes away; behind a wall, `write` has the shell."""
    return tuple(name for name in REFUSED[access] if not (walled and access == "write" and name == SHELL))


class GeminiReader(Reader):
    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.deltas: list[str] = []

    def read(self, record: Record) -> list[AnyEvent]:
        if record.get("type") == "message" and record.get("role") == "assistant" and record.get("delta"):
            delta = text(record.get("content"))
            self.deltas.append(delta)
            return [TextDelta(text=delta)]
        return [*self._owed(), *self._other(record)]

    def _other(self, record: Record) -> list[AnyEvent]:
        match record.get("type"):
            case "init":
                self.agent_session = text(record.get("session_id")) or None
                self.model = text(record.get("model")) or None
                return [self.started()]
            case "message" if record.get("role") == "user":
                return []
            case "message" if record.get("role") == "assistant":
                return [self.whole(text(record.get("content")))]
            case "tool_use":
                return [self._tool_use(record)]
            case "tool_result":
                return [self._tool_result(record)]
            case "error":
                return [Notice(text=text(record.get("message")), code=text(record.get("severity")) or "error")]
            case "result" if record.get("status") in ("success", "error"):
                self._result(record)
                return []
        return [Raw(record=record)]

    def read_stderr(self, line: str) -> list[AnyEvent]:
        """Retries, which may last minutes, stand on stderr alone."""
        if not (found := RETRY.match(line)):
            return []
        kind = kind_of(int(found[2]) if found[2] else None, line)
        return [
            Limited(
                error=limited_by(kind),
                message=line[:300],
                attempt=int(found[1]),
                retry_in=int(found[3]) / 1000 if found[3] else None,
            )
        ]

    def flush(self) -> list[AnyEvent]:
        return [*self._owed(), *super().flush()]

    def end(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        code = exit.code if exit is not None else None
        if self.problem is not None and code is not None and 144 <= code <= 255:
            # The exit code is the server's status modulo 256; the message often does not say it.
            self.fail(f"exit code {code}", kind_of(code + 256, ""), self.problem.message, self.problem.hint)
        return super().end(exit, stderr_tail)

    def no_result(self, exit: Exit | None, stderr_tail: str) -> Problem:
        said = [line for line in ANSI.sub("", stderr_tail).splitlines() if not NOISE.match(line)]
        if exit is None or exit.code not in EXITS:
            return super().no_result(exit, "\n".join(said))
        kind, hint = EXITS[exit.code]
        message = said[0].strip()[:500] if said else f"gemini ended with {spoken(exit)}"
        if "resuming session" in message:
            kind, hint = "not_found", "Start a new session; gemini finds a conversation in its own folder only"
        elif "already exists" in message:
            kind = "exists"
        return Problem(kind=kind, message=message, hint=hint)

    def _owed(self) -> list[AnyEvent]:
        whole = "".join(self.deltas)
        self.deltas.clear()
        return [self.whole(whole)] if whole else []

    def _tool_use(self, record: Record) -> ToolStarted:
        name, input = text(record.get("tool_name")), record.get("parameters")
        path = text(table(input).get("file_path"))
        files = (FileChange(path=path),) if path and name in ("write_file", "replace") else ()
        id = text(record.get("tool_id"))
        return self.tool_started(ToolStarted(id=id, name=name, title=title_of(name, input), input=input, files=files))

    def _tool_result(self, record: Record) -> ToolEnded:
        id, output = text(record.get("tool_id")), text(record.get("output"))
        tool = self.open_tools.get(id) or ToolStarted(id=id, name="")
        code = re.search(r"^Command exited with code: (\d+)$", output, re.M)
        ok = record.get("status") == "success" and (code is None or code[1] == "0")
        denial = self._denial(tool, table(record.get("error")))
        if denial is not None:
            self.denied.append(denial)
        return self.tool_ended(
            ToolEnded(
                id=id,
                ok=ok,
                output=output,
                files=tool.files if ok else (),
                exit_code=int(code[1]) if code else None,
                denied=denial is not None,
            )
        )

    def _denial(self, tool: ToolStarted, error: Record) -> Denial | None:
        """A tool that the access takes away is not offered to the model, which may call it all the same."""
        kind, message = text(error.get("type")), text(error.get("message"))
        if not message:
            return None
        if message.startswith("Path not in workspace"):
            wider: Access | None = None if self.turn.access == "full" else "full"  # by a command, even then
            return Denial(tool=tool.name, target=tool.title, access=wider, reason="outside of the folder")
        walled = self.turn.walled
        taken = _takes(self.turn.access, tool.name, walled)
        if not taken and kind != "policy_violation":
            return None
        wider = next(a for a in ACCESS_ORDER if not _takes(a, tool.name, walled)) if taken else None
        return Denial(tool=tool.name, target=tool.title, access=wider, reason=message)

    def _result(self, record: Record) -> None:
        stats, error = table(record.get("stats")), table(record.get("error"))
        self.usage = _usage_of(stats)
        self.model = _served_by(table(stats.get("models"))) or self.model
        if record["status"] == "success":
            self.succeed("result: success")
            return
        status, message = _api_error(text(error.get("message")))
        kind = FATAL.get(text(error.get("type"))) or kind_of(status, message)
        if kind == "crashed" and "API Error" in text(error.get("message")):
            kind = "overloaded"  # `terminated`, `Unexpected end of JSON input`: the stream broke
        self.fail("result: error", kind, message, LOGIN if kind == "unauthenticated" else "")


def _takes(access: Access, name: str, walled: bool) -> bool:
    """Whether that access takes the tool away."""
    return any(name.startswith(p[:-1]) if p.endswith("*") else name == p for p in refused_tools(access, walled))


ANSI = re.compile(r"\x1b\[[0-9;]*m")
NOISE = re.compile(
    r"\s*$|    at |Warning: True color|YOLO mode is enabled|Ripgrep is not|\[STARTUP\]|Approval mode overridden"
    r"|Warning: --allowed-tools"
)
RETRY = re.compile(r"Attempt (\d+) failed(?: with status (\d+))?.*?Retrying(?: after (\d+)ms)?")
LOGIN = "Log in: run gemini once, or set GEMINI_API_KEY"
EXITS: dict[int | None, tuple[ErrorKind, str]] = {
    41: ("unauthenticated", LOGIN),
    42: ("bad_request", ""),
    44: ("bad_request", ""),
    52: ("bad_request", "Fix ~/.gemini/settings.json"),
    55: ("denied", "gemini does not trust the folder: check the settings in it, then run `ostler trust`"),
    130: ("cancelled", ""),
}
FATAL: dict[str, ErrorKind] = {
    "FatalAuthenticationError": "unauthenticated",
    "FatalInputError": "bad_request",
    "FatalConfigError": "bad_request",
    "FatalUntrustedWorkspaceError": "denied",
    "FatalCancellationError": "cancelled",
}


def _api_error(message: str) -> tuple[int | None, str]:
    """`[API Error: {"error":{"code":…,"message":…}}]` as its status and its words."""
    inner = re.sub(r"^\[API Error: (.*?)\]$", r"\1", message, count=1, flags=re.S | re.M)
    try:
        error = json.loads(inner)["error"]
        return int(error["code"]), str(error["message"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None, inner


def _usage_of(stats: Record) -> Usage:
    return Usage(
        input_tokens=number(stats.get("input_tokens")),
        output_tokens=number(stats.get("output_tokens")),
        cached_tokens=number(stats.get("cached")),
    )


def _served_by(models: Record) -> str | None:
    """The model that did most of the work: `init` may say `auto`, and a router takes part."""
    counted = [(number(table(m).get("total_tokens")) or 0, name) for name, m in models.items()]
    return max(counted)[1] if counted else None
