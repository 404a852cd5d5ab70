"""One run of the scripted agent (`ostler.testing.agent`): a turn, or all those of a dialog, a screen or ACP."""

from __future__ import annotations

import json
import os
import signal
import sys

from ostler.testing import scenario as scenarios
from ostler.testing.children import AgentExit, stop
from ostler.testing.memory import Memory, UnknownSession
from ostler.testing.steps import Play, Setting

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from typing import Any

    from ostler.testing.tui_hooks import Hooks

LISTS = ("attach", "allow-tool", "deny-tool")
# fmt: off
VALUES = (
    "scenario", "cassette", "session-id", "resume", "access", "model", "system", "system-mode", "schema", "hooks",
    *LISTS,
)
# fmt: on


def play(argv: list[str], env: dict[str, str]) -> int:
    """Does what was asked for, and says on stderr why it cannot; returns the exit code."""
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        code = _play(argv, env)
        sys.stdout.flush()
    except AgentExit as leave:
        code = leave.code
    except (scenarios.BadScenario, UnknownSession) as error:
        print(f"ostler-script-agent: {error}", file=sys.stderr)
        code = 2 if isinstance(error, scenarios.BadScenario) else 1
    except BrokenPipeError:
        code = 1
    except (OSError, scenarios.BadCassette) as error:
        print(f"ostler-script-agent: {error}", file=sys.stderr)
        code = 1
    return code


def _play(argv: list[str], env: dict[str, str]) -> int:
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
        # The conversation on a cassette is the recorded agent's own: ours knows nothing of its id.
        memory.launched(sys.argv, options.get("resume") or options.get("session-id") or "", prompt)
        return _replay(cassette, speed)
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


def _replay(path: str, speed: float) -> int:
    from ostler.errors import OstlerError
    from ostler.testing.cassettes import replay

    try:
        return replay(path, speed)
    except OstlerError as error:
        raise scenarios.BadCassette(str(error)) from error


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
    if options.setdefault("access", "read") not in scenarios.ACCESS_LEVELS:
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
