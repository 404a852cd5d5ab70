"""The conformance suite passes what is good, and each of its rules has an adapter that breaks it."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ostler.agents import AGENTS
from ostler.agents.acp.any_agent import agent_of
from ostler.agents.adapter import Agent
from ostler.agents.dialog import AnswerKind, Emit, Step
from ostler.agents.reader import Reader
from ostler.agents.script.agent import AGENT, ScriptReader
from ostler.agents.script.dialog import ScriptDialog
from ostler.agents.values import Record
from ostler.errors import OstlerError
from ostler.model import AnyEvent, Ended, Exit, Host, Launch, Notice, Turn, Verdict
from ostler.testing import ScriptedAgent, assert_conforms, check_adapter

CAPTURES = Path(__file__).parent.parent / "captures"
SCENES: dict[str, list[dict[str, Any]]] = {
    "words": [{"think": "let me see"}, {"stream": "some words here"}, {"say": "whole"}],
    "only-deltas": [{"stream": {"text": "never whole here", "whole": False}}],
    "tools": [{"run": "echo hi"}, {"write": "a.txt"}, {"plan": ["a"]}, {"say": "done"}],
    "open-tool": [{"tool": {"name": "slow", "ended": False}}, {"say": "done"}],
    "failed": [{"say": "x"}, {"fail": "limited"}],
    "no-result": [{"say": "x"}, {"exit": 0}],
    "garbage": [{"garbage": True}, {"say": "x"}],
}


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the scripted agent really writes, a file for each scene."""
    folder, agent = tmp_path_factory.mktemp("captures"), ScriptedAgent(tmp_path_factory.mktemp("home"))
    env = {"PATH": os.environ["PATH"], **agent.env}
    for name, steps in SCENES.items():
        env["OSTLER_SCENARIO"] = str(agent.plays(steps))
        argv = [sys.executable, "-m", "ostler.testing.agent"]
        done = subprocess.run(argv, input=b"x", env=env, cwd=folder, capture_output=True, check=False)
        (folder / f"{name}.ndjson").write_bytes(done.stdout)
    return folder


def test_the_scripted_agent_conforms(captures: Path) -> None:
    report = check_adapter(AGENT, captures)
    assert (report.findings, report.skipped) == ((), ())
    assert set(report.checked) == set(RULES)
    assert str(report).startswith("script: conforms (described 2, ")


def test_without_captures_it_says_what_was_not_checked() -> None:
    report = check_adapter(AGENT)
    assert (report.ok, report.skipped) == (True, ("whole", "exit"))
    assert "not checked: whole" in str(report)


def test_the_same_seed_gives_the_same_report(captures: Path) -> None:
    assert check_adapter(AGENT, captures, seed=7) == check_adapter(AGENT, captures, seed=7)


def test_of_an_agent_that_only_holds_dialogs_no_other_launch_is_asked_for() -> None:
    report = check_adapter(agent_of("mine", ["mine", "acp"]))
    assert report.findings == () and report.checked["dialog_launch"] and "launches" not in report.checked


def test_what_stands_after_two_dashes_is_literal(captures: Path) -> None:
    assert_conforms(launching(lambda turn, host, launch: arguments("--", turn.prompt)(launch)), captures)


# -- adapters that break one rule each -----------------------------------------------------------------


def launching(change: Callable[[Turn, Host, Launch], Launch]) -> Agent:
    """The scripted agent with another launch."""
    return structs.replace(AGENT, launch=lambda turn, host: change(turn, host, AGENT.launch(turn, host)))


def arguments(*more: str) -> Callable[[Launch], Launch]:
    return lambda launch: structs.replace(launch, argv=(*launch.argv, *more))


def reading(reader: type[Reader]) -> Agent:
    return structs.replace(AGENT, reader=reader)


def raises(turn: Turn, host: Host) -> Launch:
    if turn.access == "full":
        raise ValueError("no")
    return AGENT.launch(turn, host)


def refuses(turn: Turn, host: Host) -> Launch:
    raise OstlerError("denied", "never")


class Broken(ScriptReader):
    """Reads as the scripted agent's reader does; what it adds is wrong."""

    def read(self, record: Record) -> list[AnyEvent]:
        events = super().read(record)
        return [*events, *self.also(record)]

    def also(self, record: Record) -> list[AnyEvent]:
        return []


class Fragile(Broken):
    def also(self, record: Record) -> list[AnyEvent]:
        len(record.get("text", ""))  # a text may be a number, or null
        return []


class Lossy(Broken):
    def read(self, record: Record) -> list[AnyEvent]:
        return [event for event in super().read(record) if getattr(event, "record", None) is None]


class SaysEnded(Broken):
    def also(self, record: Record) -> list[AnyEvent]:
        return [Ended(outcome="done")] if record.get("type") == "result" else []


class Stamps(Broken):
    def also(self, record: Record) -> list[AnyEvent]:
        return [Notice(text="x", seq=3)]


class Unwritable(Broken):
    def also(self, record: Record) -> list[AnyEvent]:
        return [Notice(text=object())]  # type: ignore[arg-type]


class NoEvent(Broken):
    def also(self, record: Record) -> list[Any]:
        return ["text"]


class NeverWhole(ScriptReader):
    def _owed(self) -> list[AnyEvent]:
        return []


class WrongWhole(ScriptReader):
    def read(self, record: Record) -> list[AnyEvent]:
        return super().read({**record, "text": "other"} if record.get("kind") == "text" else record)


class LeavesOpen(ScriptReader):
    def flush(self) -> list[AnyEvent]:
        return self._owed()


class AlwaysDone(ScriptReader):
    def end(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        return structs.replace(super().end(exit, stderr_tail), outcome="done")


class BelievesExitCodes(ScriptReader):
    """Takes exit code 0 for success once the agent has said anything."""

    said = False

    def read(self, record: Record) -> list[AnyEvent]:
        self.said = self.said or "kind" in record
        return super().read(record)

    def end(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        verdict = super().end(exit, stderr_tail)
        return structs.replace(verdict, outcome="done") if self.said and exit == Exit(code=0) else verdict


class IgnoresExitCodes(ScriptReader):
    def end(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        return super().end(Exit(code=0), stderr_tail)


class Curious(Broken):
    def also(self, record: Record) -> list[AnyEvent]:
        return [Notice(text=str(os.path.exists("/") and len(os.listdir("/"))))]


class Forgetful(Broken):
    counter = itertools.count()

    def also(self, record: Record) -> list[AnyEvent]:
        return [Notice(text=str(next(self.counter)))]


clock = itertools.count()


def looks_around(turn: Turn, host: Host, launch: Launch) -> Launch:
    os.listdir("/")
    return launch


class Talk(ScriptDialog):
    """The dialog of the scripted agent, to be broken."""

    def __init__(self, turn: Turn, host: Host) -> None:
        super().__init__(turn, host, ScriptReader)


class FragileTalk(Talk):
    def read(self, record: Record) -> list[Step]:
        return [Emit([Notice(text=record["text"])])]


class NoSteps(Talk):
    def open(self) -> list[Step]:
        return [{"type": "hello"}]  # type: ignore[list-item]


class AnswersAnything(Talk):
    def answer(self, ask: str, kind: AnswerKind, message: str = "") -> list[Step]:
        return []


class LosesAsks(Talk):
    def answer(self, ask: str, kind: AnswerKind, message: str = "") -> list[Step]:
        raise KeyError(ask)


def talking(**changes: Any) -> Agent:
    """The scripted agent with another dialog."""
    assert AGENT.dialog is not None
    return structs.replace(AGENT, dialog=structs.replace(AGENT.dialog, **changes))


BROKEN: list[tuple[str, str, Agent]] = [
    ("described", "no binary", structs.replace(AGENT, binaries=())),
    ("described", "no words on access", structs.replace(AGENT, access={"read": "x"})),
    ("launches", "raises", structs.replace(AGENT, launch=raises)),
    ("launches", "refuses everything", structs.replace(AGENT, launch=refuses)),
    ("launches", "NUL in argv", launching(lambda turn, host, launch: arguments("a\0b")(launch))),
    ("launches", "no argv", launching(lambda turn, host, launch: Launch(argv=()))),
    (
        "launches",
        "access makes no difference",
        structs.replace(AGENT, launch=lambda turn, host: AGENT.launch(structs.replace(turn, access="full"), host)),
    ),
    ("repeatable", "a clock in the launch", launching(lambda t, h, launch: arguments(f"--at={next(clock)}")(launch))),
    ("repeatable", "a counter in the reader", reading(Forgetful)),
    ("pure", "launch looks around", launching(looks_around)),
    ("pure", "reader looks around", reading(Curious)),
    (
        "files",
        "a file elsewhere",
        launching(lambda turn, host, launch: structs.replace(launch, files={"/etc/x": b"", **launch.files})),
    ),
    (
        "files",
        "a file outside by dots",
        launching(lambda turn, host, launch: structs.replace(launch, files={f"{host.private}/../x": b""})),
    ),
    (
        "files",
        "a path in the folder",
        launching(lambda turn, host, launch: structs.replace(launch, folder_files={"a/b": ""})),
    ),
    (
        "files",
        "settings without a shadow",
        launching(lambda turn, host, launch: structs.replace(launch, settings={"hooks": {}})),
    ),
    ("literal", "the prompt in argv", launching(lambda turn, host, launch: arguments(turn.prompt)(launch))),
    (
        "literal",
        "the model apart from its flag",
        launching(lambda turn, host, launch: arguments("--model", turn.model or "x")(launch)),
    ),
    (
        "literal",
        "the id apart from its flag",
        launching(lambda turn, host, launch: arguments(*([turn.agent_session or ""] if turn.resume else []))(launch)),
    ),
    (
        "literal",
        "several tools in one argument",
        launching(lambda turn, host, launch: arguments(*[f"{name},x" for name in turn.tools_allowed])(launch)),
    ),
    ("carried", "no prompt", launching(lambda turn, host, launch: structs.replace(launch, stdin=b""))),
    (
        "carried",
        "no system prompt",
        structs.replace(AGENT, launch=lambda turn, host: AGENT.launch(structs.replace(turn, system=None), host)),
    ),
    (
        "carried",
        "no id to resume",
        structs.replace(AGENT, launch=lambda turn, host: AGENT.launch(structs.replace(turn, agent_session=None), host)),
    ),
    ("survives", "a number where a text was", reading(Fragile)),
    ("events", "says ended", reading(SaysEnded)),
    ("events", "gives out seq", reading(Stamps)),
    ("events", "cannot be written down", reading(Unwritable)),
    ("events", "no event at all", reading(NoEvent)),  # type: ignore[type-abstract]
    ("unknown", "drops what it does not know", reading(Lossy)),
    ("whole", "no whole text", reading(NeverWhole)),
    ("whole", "another whole text", reading(WrongWhole)),
    ("closed", "tools stay open", reading(LeavesOpen)),
    ("proof", "always done", reading(AlwaysDone)),
    ("proof", "believes exit codes", reading(BelievesExitCodes)),
    ("exit", "ignores exit codes", reading(IgnoresExitCodes)),
    ("dialog_launch", "raises", talking(launch=raises)),
    ("dialog_launch", "refuses everything", talking(launch=refuses)),
    ("dialog_launch", "the prompt in the launch", talking(launch=AGENT.launch)),
    ("dialog_survives", "a record without a text", talking(dialog=FragileTalk)),
    ("dialog_survives", "opens with a record instead of a step", talking(dialog=NoSteps)),
    ("dialog_asks", "answers what nobody asked", talking(dialog=AnswersAnything)),
    ("dialog_asks", "stumbles over what nobody asked", talking(dialog=LosesAsks)),
]
RULES = list(dict.fromkeys(rule for rule, _, _ in BROKEN))


@pytest.mark.parametrize(("rule", "agent"), [pytest.param(rule, a, id=f"{rule}: {how}") for rule, how, a in BROKEN])
def test_a_broken_adapter_is_found(rule: str, agent: Agent, captures: Path) -> None:
    report = check_adapter(agent, captures)
    assert not report.ok and "does not conform" in str(report)
    assert rule in {finding.rule for finding in report.findings}, str(report)


def test_one_that_conforms_is_let_pass_and_a_broken_one_is_not(captures: Path) -> None:
    assert_conforms(AGENT, captures)
    with pytest.raises(AssertionError, match=r"does not conform[^$]*described: by which flags"):
        assert_conforms(structs.replace(AGENT, access={"read": "x"}), captures)


@pytest.mark.parametrize("name", sorted(AGENTS))
@pytest.mark.parametrize("seed", range(3))
def test_the_adapters_of_ostler_conform(name: str, seed: int, captures: Path) -> None:
    recorded = captures if name == "script" else CAPTURES / name
    assert_conforms(AGENTS[name], recorded if recorded.is_dir() else None, seed=seed)
