"""The scripted agent: a real executable that plays a coding agent by script.

    echo "say hello" | ostler-script-agent --access=write --scenario=hello.toml

It reads its prompt from stdin and writes records, one JSON object a line:

    {"type": "init", "session": ID, "model": …, "folder": …}     first, always
    {"kind": "text" | "text_delta" | "thought" | "thought_delta" | "tool_started" | "tool_ended" | "plan" |
             "asked" | "answered" | "usage" | "limited" | "notice", …}
                                          the events of `ostler.model`, without seq, at and turn
    {"type": "denied", "tool": …, "target": …, "access": …, "reason": …}
    {"type": "result", "ok": true, "text": …, "structured": …, "usage": {…}, "cost_usd": …, "steps": …}
    {"type": "result", "ok": false, "error": {"kind": …, "message": …}}

This is ostler's native format: a program that writes it can be read by the adapter `script`. A turn succeeded
when a result with `ok` was written and the exit code is 0. With `--dialog` it stays for many turns
(`ostler.testing.talk`), with `--tui` it has a screen (`ostler.testing.tui`), with `--acp` it is an ACP agent. SIGINT
and SIGTERM end it with 130 and 143 and without a result. Scenarios: `ostler.testing.scenario`; steps:
`ostler.testing.steps`. Without either it shows something worth watching. $OSTLER_SCRIPT_SPEED multiplies all delays
(0: none).

Imports as little as it can: ostler's tests start it hundreds of times.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from ostler.errors import OstlerError  # `import ostler` has it already
from ostler.testing import scenario as scenarios
from ostler.testing.children import AgentExit, stop
from ostler.testing.memory import Memory, UnknownSession
from ostler.testing.steps import Play, Setting

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from ostler.testing.tui_hooks import Hooks

VERSION = "1.0"
HELP = """\
usage: ostler-script-agent [OPTION]... < PROMPT

A coding agent that plays by script.

  --scenario=FILE    replies by prompt pattern (TOML, JSON) or a cassette; also $OSTLER_SCENARIO
  --cassette=FILE    replay a recording of any agent
  --session-id=ID    the id of a new conversation
  --resume=ID        go on with a conversation
  --fork             with --resume: go on in a copy, under a new id
  --dialog           stay for many turns: prompts and answers are read from stdin, one JSON object a line
  --tui              a screen of its own, in a terminal (`ostler.testing.tui`)
  --hooks=FILE       hooks to call, in claude's shape (`ostler.testing.tui_hooks`)
  --acp              speak ACP on stdio, for any client (`ostler.testing.acp_agent`)
  --access=LEVEL     read (default), write (this folder) or full
  --model=NAME       reported back
  --system=TEXT      system prompt; see the step `echo`
  --system-mode=MODE append (default) or replace; see the step `echo`
  --schema=FILE      JSON schema of the answer
  --attach=PATH      a file that goes with the prompt; may be repeated
  --allow-tool=NAME  only these tools; may be repeated
  --deny-tool=NAME   not these tools; may be repeated
  --version          show the version
  --help             show this text
"""
LISTS = ("attach", "allow-tool", "deny-tool")
# fmt: off
VALUES = (
    "scenario", "cassette", "session-id", "resume", "access", "model", "system", "system-mode", "schema", "hooks",
    *LISTS,
)
# fmt: on


def main() -> NoReturn:
    """Plays one turn and exits."""
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        code = _run(sys.argv[1:], dict(os.environ))
        sys.stdout.flush()
    except AgentExit as leave:
        code = leave.code
    except (scenarios.BadScenario, UnknownSession) as error:
        print(f"ostler-script-agent: {error}", file=sys.stderr)
        code = 2 if isinstance(error, scenarios.BadScenario) else 1
    except BrokenPipeError:
        code = 1
    except (OSError, OstlerError) as error:
        print(f"ostler-script-agent: {error}", file=sys.stderr)
        code = 1
    _leave(code)


def _leave(code: int) -> NoReturn:
    """Exits without the interpreter's farewell: nothing is owed, and a broken pipe must not complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            pass  # nobody reads it any more
    os._exit(code)


def _run(argv: list[str], env: dict[str, str]) -> int:
    if "--version" in argv:
        print(f"ostler-script-agent {VERSION}")
        return 0
    if "--help" in argv or "-h" in argv:
        print(HELP, end="")
        return 0
    options = _options(argv)
    path = options.get("scenario") or env.get("OSTLER_SCENARIO")
    scenario = scenarios.load(path) if path else {}
    if scenario.get("deaf"):
        Play.sleep_forever()
    if "dialog" in options:
        from ostler.testing.talk import talk

        return talk(options, scenario, bool(path), env)
    if "tui" in options:
        from ostler.testing.tui import run_tui

        return run_tui(options, scenario, bool(path), env)
    if "acp" in options:
        from ostler.testing.acp_agent import serve

        return serve(options, scenario, bool(path), env)
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    memory, speed = at_home(env)
    if cassette := options.get("cassette") or scenario.get("cassette"):
        from ostler.testing.cassettes import replay

        # The conversation on a cassette is the recorded agent's own: ours knows nothing of its id.
        memory.launched(sys.argv, options.get("resume") or options.get("session-id") or "", prompt)
        return replay(cassette, speed)
    session = memory.open(options.get("session-id"), options.get("resume"), "fork" in options)
    memory.launched(sys.argv, session, prompt)
    if not prompt.strip():
        raise scenarios.BadScenario("no prompt on stdin")
    setting = Setting(prompt, session, memory.history, options, speed)
    play = Play(setting)
    if "hooks" not in options:
        perform(play, scenario, bool(path), memory)
        return play.finish()
    from ostler.testing.tui_hooks import Hooks

    given = {"session_id": session, "cwd": os.getcwd(), "transcript_path": memory.path}
    play.hooks = Hooks(options["hooks"], given, scenario.get("hooks", True))
    return _with_hooks(play, play.hooks, scenario, bool(path), memory)


def _with_hooks(play: Play, hooks: Hooks, scenario: dict[str, Any], scripted: bool, memory: Memory) -> int:
    """The same with hooks, in the order in which claude fires them; without a Stop where the turn fails."""
    hooks.fire("SessionStart", source="resume" if play.setting.options.get("resume") else "startup")
    hooks.fire("UserPromptSubmit", prompt=play.setting.prompt)
    perform(play, scenario, scripted, memory)
    if play.succeeds:
        hooks.fire("Stop", last_assistant_message=play.text, stop_hook_active=False)
    code = play.finish()
    hooks.fire("SessionEnd", reason="other")
    return code


def at_home(env: dict[str, str]) -> tuple[Memory, float]:
    """What it remembers, and how fast it plays."""
    home = env.get("OSTLER_SCRIPT_HOME") or os.path.join(os.path.expanduser("~"), ".local/state/ostler-script")
    return Memory(home), _speed(env.get("OSTLER_SCRIPT_SPEED") or "1")


def _speed(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        raise scenarios.BadScenario(f"$OSTLER_SCRIPT_SPEED is a number, not {text!r}") from None


def _options(argv: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for arg in argv:
        name, equals, value = arg.removeprefix("--").partition("=")
        if arg in ("--fork", "--dialog", "--acp", "--tui"):
            options[name] = True
        elif not arg.startswith("--") or not equals or name not in VALUES:
            raise scenarios.BadScenario(f"unknown argument {arg!r}; the prompt is read from stdin. See --help")
        elif name in LISTS:
            options.setdefault(name, []).append(value)
        else:
            options[name] = value
    if options.setdefault("access", "read") not in ("read", "write", "full"):
        raise scenarios.BadScenario(f"--access is read, write or full, not {options['access']!r}")
    if "schema" in options:
        options["schema"] = _schema(options["schema"])
    return options


def _schema(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise scenarios.BadScenario(f"cannot read the schema {path}: {error}") from None


def perform(play: Play, scenario: dict[str, Any], scripted: bool, memory: Memory) -> None:
    """Chooses what to do, does it, and remembers it; the result is still to be written."""
    setting = play.setting
    memory.remember(prompt=setting.prompt)
    steps: list[dict[str, Any]] | None = scenarios.marked(setting.prompt) or None
    reply: dict[str, Any] = {}
    groups: dict[str, str] = {}
    if steps is None and (chosen := scenarios.choose(scenario, setting.prompt, len(setting.history) + 1)):
        reply, groups = chosen
        steps = reply.get("steps", [])
    if reply.get("init", True) and not setting.options.get("dialog"):
        play.begin(reply.get("session"))
    if steps is not None:
        play.steps(steps, groups)
    elif "schema" in setting.options:
        from ostler.testing.shapes import smallest

        play.step_structured(smallest(setting.options["schema"]))
    elif scripted:
        play.step_fail({"kind": "bad_request", "message": "no reply of the scenario matches the prompt"})
    else:
        from ostler.testing.show import show

        show(play)
    memory.remember(text=play.text)


if __name__ == "__main__":
    main()
