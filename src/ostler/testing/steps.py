"""The steps of the scripted agent: what it can say and do, well or badly.

    say = TEXT                  one whole text          stream = TEXT | {text, delay, whole}   deltas, then whole
    think = TEXT                a thought, in deltas    plan = [TEXT | {text, status}, …]
    run = COMMAND | [ARGV] | {command, name}            a real child process; its output is the tool's
    write = PATH | {path, content}                      a real file; refused as the access demands
    read = PATH                 a real file, and says what is in it
    tool = {name, input, output, ok, ended}             a tool call that only looks like one
    ask = {tool, input, answer, then, options}          a permission question; nobody there: `answer` is taken;
                                                        `then`: the steps that follow if it is allowed
    usage = {input_tokens, …, cost_usd}                 structured = JSON
    hear = true                 waits for a word on the way, in a dialog, and says it back
    history = true              says its earlier prompts, one a line
    echo = "prompt"             says what it was given: prompt, model, system, access, attach, argv, session, …
    notice = TEXT               stderr = TEXT
    wait = SECONDS              wait_for = PATH         until that file exists
    retry = {error, message, attempt, retry_in}         held up by its model
    fail = KIND | {kind, message, exit}                 a result that is an error
    exit = CODE                 without a result        exit_after_result = CODE
    linger = SECONDS            stays after the result  never_end = true
    crash = SIGNAL              kills itself            ignore = [SIGNAL, …]
    double_fork = PIDFILE | {pid_file, hold, scrub}     a daemon that ignores INT, TERM and HUP (60 s at most);
                                                        hold: it keeps stdout, scrub: without our environment
    hook = NAME | {name, payload, times}                fires that hook, where it has hooks
    flood = LINES | {lines, width}                      garbage = true | TEXT    anything but records

Texts may hold {prompt}, {session}, {folder}, {model} and the named groups of the match.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from ostler.testing.children import AgentExit, run
from ostler.testing.scenario import ACCESS_LEVELS, CONTENT, BadScenario, filled

TYPE_CHECKING = False  # spares the import of typing: this file is part of the agent's start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from ostler.testing.tui_hooks import Hooks

FOREVER = 600.0  # an agent that never ends still ends, should its test be gone


class Setting:
    """What the agent was started with."""

    def __init__(self, prompt: str, session: str, history: list[str], options: dict[str, Any], speed: float) -> None:
        self.prompt = prompt
        self.session = session
        self.history = history  # earlier prompts of this conversation
        self.options = options
        self.speed = speed

    @property
    def access(self) -> str:
        return str(self.options["access"])


class Play:
    """One turn being played: writes records, keeps what the result will say."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.text = ""
        self.answer_to: Callable[[str], str] | None = None  # waits for the answer to an ask, in a dialog
        self.hear: Callable[[], str] | None = None  # waits for what it is told while it works, in a dialog
        self.hooks: Hooks | None = None
        self._denied: dict[str, str] = {}  # tool call → why a hook denied it
        self._result: dict[str, Any] = {"type": "result", "ok": True}
        self._count = 0  # ids of texts and tools
        self._tools = 0
        self._linger = 0.0
        self._code = 0

    # -- the frame

    def begin(self, session: str | None = None, **more: Any) -> None:
        model = self.setting.options.get("model") or "scripted"
        self.record(type="init", session=session or self.setting.session, model=model, folder=os.getcwd(), **more)

    def steps(self, steps: list[dict[str, Any]], groups: dict[str, str]) -> None:
        given = {name: str(self._given(name)) for name in ("prompt", "session", "folder", "model")}
        for step in steps:
            ((name, value),) = step.items()
            try:
                getattr(self, f"step_{name}")(filled(value, {**given, **groups}))
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                raise BadScenario(f"step {name} = {value!r}: {error!r}") from None

    def cut_short(self) -> None:
        """The result of a turn that was interrupted."""
        self._result = {"type": "result", "ok": False, "error": {"kind": "cancelled", "message": "interrupted"}}

    def finish(self) -> int:
        """Writes the result; returns the exit code."""
        if self._result["ok"]:
            self._result.setdefault("text", self.text)
            self._result["steps"] = self._tools + 1
        self.record(**self._result)
        if self._linger:
            time.sleep(self._linger)
        return self._code

    @property
    def succeeds(self) -> bool:
        return bool(self._result["ok"])

    def record(self, **record: Any) -> None:
        if self.hooks is not None and record.get("kind") == "tool_ended":
            self.hooks.fire("PostToolUse", tool_use_id=record["id"], tool_response=record.get("output"))
        self.raw(json.dumps(record).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds * self.setting.speed)

    def _id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    # -- words

    def step_say(self, text: str) -> None:
        self.text = str(text)
        self.record(kind="text", text=self.text, id=self._id("m"))

    def step_stream(self, value: str | dict[str, Any]) -> None:
        if isinstance(value, str):
            value = {"text": value}
        self.text, id = value["text"], self._id("m")
        self._deltas("text_delta", self.text, id, value.get("delay", 0.04))
        if value.get("whole", True):
            self.record(kind="text", text=self.text, id=id)

    def step_think(self, text: str) -> None:
        id = self._id("t")
        self._deltas("thought_delta", text, id, 0.04)
        self.record(kind="thought", text=text, id=id)

    def _deltas(self, kind: str, text: str, id: str, delay: float) -> None:
        for number, word in enumerate(text.split(" ")):
            self.record(kind=kind, text=" " + word if number else word, id=id)
            self.pause(delay)

    def step_plan(self, steps: list[Any]) -> None:
        whole = [step if isinstance(step, dict) else {"text": step, "status": "pending"} for step in steps]
        self.record(kind="plan", steps=whole)

    def step_usage(self, usage: dict[str, Any]) -> None:
        usage = dict(usage)
        cost = usage.pop("cost_usd", None)
        self._result |= {"usage": usage, "cost_usd": cost}
        self.record(kind="usage", usage=usage, cost_usd=cost)

    def step_structured(self, value: Any) -> None:
        self._result["structured"] = value
        self.step_say(json.dumps(value))

    def step_notice(self, text: str) -> None:
        self.record(kind="notice", text=text)

    def step_stderr(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def step_history(self, _: Any) -> None:
        self.step_say("\n".join(self.setting.history) or "nothing")

    def step_hear(self, _: Any) -> None:
        if self.hear is None:
            raise BadScenario("step hear: only in a dialog it can be told more while it works")
        self.step_say(self.hear())

    def step_echo(self, name: str) -> None:
        given = self._given(name)
        self.step_say(given if isinstance(given, str) else json.dumps(given))

    def _given(self, name: str) -> Any:
        special = {
            "prompt": self.setting.prompt,
            "session": self.setting.session,
            "folder": os.getcwd(),
            "argv": sys.argv[1:],
        }
        return special[name] if name in special else self.setting.options.get(name, "")

    # -- tools

    def step_run(self, value: Any) -> int | None:
        """Runs a command; returns its exit code, None where it was refused."""
        wanted = value if isinstance(value, dict) else {"command": value}
        command, name = wanted["command"], wanted.get("name", "shell")
        shown = command if isinstance(command, str) else " ".join(command)
        id = self._tool(name, wanted.get("title", shown), {"command": command})
        if self._refused(name, id, shown):
            return None
        code, output = self.run_command(["/bin/sh", "-c", command] if isinstance(command, str) else command, id)
        self.record(kind="tool_ended", id=id, ok=code == 0, output=output, exit_code=code)
        return code

    def step_write(self, value: Any) -> bool:
        """Writes a file; False where the access or a tool list forbids it."""
        wanted = value if isinstance(value, dict) else {"path": value}
        path, content = wanted["path"], wanted.get("content", CONTENT)
        change = [{"path": path, "change": "update" if os.path.exists(path) else "add"}]
        id = self._tool("write", path, {"path": path, "content": content}, files=change)
        if self._refused("write", id, path, needed_for_write(path)):
            return False
        try:
            self.write_file(path, content)
        except OSError as error:
            self.record(kind="tool_ended", id=id, ok=False, output=str(error))
            return False
        self.record(kind="tool_ended", id=id, ok=True, output=f"wrote {len(content)} characters", files=change)
        return True

    def step_read(self, path: str) -> None:
        """Reads a file, and says what is in it."""
        id = self._tool("read", path, {"path": path})
        try:
            content = self.read_file(path)
        except OSError as error:
            self.record(kind="tool_ended", id=id, ok=False, output=str(error))
            return
        self.record(kind="tool_ended", id=id, ok=True, output=content)
        self.step_say(content)

    def run_command(self, argv: list[str], id: str) -> tuple[int, str]:
        return run(argv)

    def write_file(self, path: str, content: str) -> None:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)

    def read_file(self, path: str) -> str:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def step_tool(self, value: dict[str, Any]) -> None:
        name, input = value.get("name", "tool"), value.get("input")
        id = self._tool(name, value.get("title", ""), input)
        if value.get("ended", True) and not self._refused(name, id, value.get("title", "")):
            self.record(kind="tool_ended", id=id, ok=value.get("ok", True), output=value.get("output", ""))

    def step_ask(self, value: dict[str, Any]) -> None:
        id, tool = self._id("q"), value.get("tool", "shell")
        kinds = value.get("options", ("allow_once", "reject_once"))
        options = [{"id": kind, "name": kind.replace("_", " "), "kind": kind} for kind in kinds]
        more = {key: value[key] for key in ("title", "input", "diff", "files", "reason") if key in value}
        self.record(kind="asked", id=id, tool=tool, options=options, **more)
        if self.answer_to is not None:
            answer, reason = self.answer_to(id), "it was not allowed"
        else:
            answer, reason = value.get("answer", "reject_once"), "nobody answered"
            self.record(kind="answered", id=id, option=answer, by="script")
        if answer.startswith("allow"):
            self.steps(value.get("then", []), {})
        else:
            self.record(type="denied", tool=tool, target=_about(value), reason=reason)

    def _tool(self, name: str, title: str, input: Any, **more: Any) -> str:
        self._tools += 1
        id = self._id("c")
        self.record(kind="tool_started", id=id, name=name, title=title, input=input, **more)
        if self.hooks is not None:
            from ostler.testing.tui_hooks import denial

            reason = denial(self.hooks.fire("PreToolUse", tool_name=name, tool_input=input, tool_use_id=id))
            self._denied |= {id: reason} if reason is not None else {}
        return id

    def _refused(self, tool: str, id: str, target: str, needed: str = "read") -> bool:
        """Whether this tool may not be used so; then the refusal has been recorded."""
        options, levels = self.setting.options, ACCESS_LEVELS
        reason, access = "", None
        if tool in options.get("deny-tool", ()) or tool not in options.get("allow-tool", (tool,)):
            reason = f"the tool {tool} is not allowed"
        elif levels.index(needed) > levels.index(self.setting.access):
            reason, access = f"access is {self.setting.access}", needed
        reason = self._denied.get(id) or reason
        if reason:
            self.record(kind="tool_ended", id=id, ok=False, output=f"refused: {reason}", denied=True)
            self.record(type="denied", tool=tool, target=target, access=access, reason=reason)
        return bool(reason)

    def step_hook(self, value: str | dict[str, Any]) -> None:
        wanted: dict[str, Any] = value if isinstance(value, dict) else {"name": value}
        for _ in range(int(wanted.get("times", 1)) if self.hooks is not None else 0):
            assert self.hooks is not None
            self.hooks.fire(wanted["name"], **wanted.get("payload", {}))

    # -- time

    def step_wait(self, seconds: float | str) -> None:
        self.pause(float(seconds))

    def step_wait_for(self, path: str) -> None:
        deadline = time.monotonic() + FOREVER
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.01)

    def step_never_end(self, _: Any) -> None:
        self.sleep_forever()

    @staticmethod
    def sleep_forever() -> NoReturn:
        deadline = time.monotonic() + FOREVER
        while time.monotonic() < deadline:  # an ignored signal must not wake it for good
            time.sleep(1)
        raise AgentExit(1)

    def step_linger(self, seconds: float | str) -> None:
        self._linger = float(seconds)

    # -- ends

    def step_retry(self, value: Any) -> None:
        wanted = value if isinstance(value, dict) else {"error": value or "limited"}
        self.record(kind="limited", **wanted)

    def step_fail(self, value: Any) -> None:
        wanted: dict[str, Any] = dict(value) if isinstance(value, dict) else {"kind": value or "crashed"}
        self._code = wanted.pop("exit", 1)
        error = {"message": f"scripted failure: {wanted.get('kind')}", **wanted}
        self._result = {"type": "result", "ok": False, "error": error}

    def step_exit(self, code: int | str) -> None:
        raise AgentExit(int(code or 0))

    def step_exit_after_result(self, code: int | str) -> None:
        self._code = int(code)

    def step_crash(self, value: Any) -> None:
        from ostler.testing.mischief import crash

        crash(str(value or "SEGV"))

    def step_ignore(self, value: Any) -> None:
        for name in value if isinstance(value, list) else [value or "TERM"]:
            signal.signal(signal_number(name), signal.SIG_IGN)

    def step_double_fork(self, value: Any) -> None:
        from ostler.testing.mischief import double_fork

        double_fork(value if isinstance(value, dict) else {"pid_file": value or "daemon.pid"})

    def step_flood(self, value: Any) -> None:
        from ostler.testing.mischief import flood

        self.text = flood(value if isinstance(value, dict) else {"lines": int(value or 10_000)}, self._id("m"))

    def step_garbage(self, value: Any) -> None:
        from ostler.testing.mischief import GARBAGE

        self.raw(value.encode() if isinstance(value, str) and value else GARBAGE)


def needed_for_write(path: str) -> str:
    """Inside the folder `write` is enough; elsewhere, also through a link, only `full` is."""
    folder = os.path.realpath(os.getcwd())
    return "write" if os.path.realpath(path).startswith(folder + os.sep) else "full"


def signal_number(name: str | int) -> int:
    if isinstance(name, int) or name.isdigit():
        return int(name)
    return signal.Signals["SIG" + name.upper().removeprefix("SIG")]


def _about(ask: dict[str, Any]) -> str:
    """What an ask is about, as an agent would name it: its title, else the first text of its input."""
    input = ask.get("input")
    given = input.values() if isinstance(input, dict) else (input,)
    return str(ask.get("title") or next((item for item in given if isinstance(item, str)), ""))
