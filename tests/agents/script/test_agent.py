"""The adapter of the scripted agent: launches, whole event lists, verdicts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ostler.agents import AGENTS, agent_for
from ostler.agents.adapter import Conversation
from ostler.agents.reader import decode
from ostler.agents.script.agent import AGENT, ScriptReader, conversation
from ostler.model import (
    Answered,
    AnyEvent,
    Asked,
    AskOption,
    Attachment,
    Denial,
    Exit,
    FileChange,
    Host,
    Launch,
    Limited,
    Notice,
    Plan,
    PlanStep,
    Problem,
    Raw,
    Started,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
    UsageReport,
    Verdict,
)
from ostler.testing import ScriptedAgent

FINE = Exit(code=0)
HOST = Host(executable="/opt/ostler-script-agent", private="/private/t1")


def turn(**fields: Any) -> Turn:
    return Turn(**{"id": "t1", "session": "k1", "agent": "script", "prompt": "do it", "folder": "/f"} | fields)


def read(records: list[dict[str, Any]], exit: Exit | None = FINE, **fields: Any) -> tuple[list[AnyEvent], Verdict]:
    reader = ScriptReader(turn(**fields))
    events = [event for record in records for event in reader.read(record)]
    return events + reader.flush(), reader.end(exit, "")


class TestLaunch:
    def test_a_first_turn(self) -> None:
        assert AGENT.launch(turn(), HOST) == Launch(argv=("/opt/ostler-script-agent", "--access=read"), stdin=b"do it")

    def test_everything_at_once(self) -> None:
        asked = turn(
            prompt="--version",
            access="write",
            model="m",
            system="be kind",
            agent_session="id",
            schema={"type": "object"},
            tools_allowed=("shell", "custom"),
            tools_denied=("write",),
            attachments=(Attachment(path="/a.png", image=True), Attachment(name="n.txt", content="inline")),
        )
        assert AGENT.launch(asked, HOST) == Launch(
            argv=(
                "/opt/ostler-script-agent",
                "--access=write",
                "--session-id=id",
                "--model=m",
                "--system=be kind",
                "--schema=/private/t1/schema.json",
                "--attach=/a.png",
                "--allow-tool=shell",
                "--allow-tool=custom",
                "--deny-tool=write",
            ),
            stdin=b'--version\n\n<file name="n.txt">\ninline\n</file>',
            files={"/private/t1/schema.json": b'{"type":"object"}'},
        )

    @pytest.mark.parametrize(("fork", "more"), [(False, ()), (True, ("--fork",))])
    def test_resume(self, fork: bool, more: tuple[str, ...]) -> None:
        launch = AGENT.launch(turn(agent_session="id", resume=True, fork=fork, first=False), HOST)
        assert launch.argv[2:] == ("--resume=id", *more)

    def test_it_is_found_by_name_and_model(self) -> None:
        assert AGENTS["script"] is AGENT
        assert agent_for("script-fast") == (AGENT, "script-fast")


INIT = {"type": "init", "session": "s", "model": "m", "folder": "/f"}
STARTED = Started(agent="script", agent_session="s", model="m", folder="/f")


class TestReader:
    def test_every_record(self) -> None:
        events, verdict = read(
            [
                INIT,
                {"kind": "thought_delta", "text": "h", "id": "t"},
                {"kind": "thought", "text": "hm", "id": "t"},
                {"kind": "plan", "steps": [{"text": "a", "status": "active"}]},
                {"kind": "text_delta", "text": "o", "id": "m"},
                {"kind": "text", "text": "one", "id": "m", "seq": 9, "turn": "forged", "at": 1.0},
                {"kind": "tool_started", "id": "c", "name": "write", "files": [{"path": "a", "change": "add"}]},
                {"kind": "tool_ended", "id": "c", "ok": False, "output": "no", "denied": True, "exit_code": None},
                {"type": "denied", "tool": "write", "target": "a", "access": "write", "reason": "r"},
                {
                    "kind": "asked",
                    "id": "q",
                    "tool": "sh",
                    "options": [{"id": "a", "name": "A", "kind": "allow_once"}],
                },
                {"kind": "answered", "id": "q", "option": "a", "by": "script"},
                {"kind": "limited", "error": "overloaded", "retry_in": 1.0},
                {"kind": "notice", "text": "n"},
                {"kind": "usage", "usage": {"input_tokens": 1}, "cost_usd": 0.1},
                {
                    "type": "result",
                    "ok": True,
                    "text": "one",
                    "steps": 2,
                    "structured": {"a": 1},
                    "usage": {"input_tokens": 2, "output_tokens": 3},
                    "cost_usd": 0.5,
                },
            ]
        )
        assert events == [
            STARTED,
            ThoughtDelta(text="h", id="t"),
            Thought(text="hm", id="t"),
            Plan(steps=(PlanStep(text="a", status="active"),)),
            TextDelta(text="o", id="m"),
            Text(text="one", id="m"),
            ToolStarted(id="c", name="write", files=(FileChange(path="a", change="add"),)),
            ToolEnded(id="c", ok=False, output="no", denied=True),
            Asked(id="q", tool="sh", options=(AskOption(id="a", name="A", kind="allow_once"),)),
            Answered(id="q", option="a", by="script"),
            Limited(error="overloaded", retry_in=1.0),
            Notice(text="n"),
            UsageReport(usage=Usage(input_tokens=1), cost_usd=0.1),
        ]
        assert verdict == Verdict(
            outcome="done",
            evidence=("result: ok",),
            text="one",
            structured={"a": 1},
            agent_session="s",
            model="m",
            usage=Usage(input_tokens=2, output_tokens=3),
            cost_usd=0.5,
            steps=2,
            denied=(Denial(tool="write", target="a", access="write", reason="r"),),
        )

    def test_a_stream_that_breaks_off(self) -> None:
        events, verdict = read(
            [
                INIT,
                {"kind": "text_delta", "text": "ha", "id": "m"},
                {"kind": "thought_delta", "text": "t", "id": "t"},
                {"kind": "text_delta", "text": "lf", "id": "m"},
                {"kind": "tool_started", "id": "c", "name": "shell"},
            ],
            Exit(signal=9),
        )
        assert events[5:] == [Text(text="half", id="m"), Thought(text="t", id="t"), ToolEnded(id="c", ok=False)]
        assert (verdict.outcome, verdict.text, verdict.evidence) == ("crashed", "half", ())

    def test_a_result_brings_the_text_that_was_only_streamed_or_never_said(self) -> None:
        result = {"type": "result", "ok": True, "text": "ab"}
        events, verdict = read([{"kind": "text_delta", "text": "ab"}, result])
        assert (events, verdict.text) == ([TextDelta(text="ab"), Text(text="ab")], "ab")
        assert read([result])[0] == [Text(text="ab")]

    @pytest.mark.parametrize(
        "record",
        [
            {},
            {"type": "surprise"},
            {"type": "init"},
            {"type": "init", "session": 7},
            {"type": "result", "ok": "yes"},
            {"type": "denied", "tool": "x", "access": "root"},
            {"kind": "telepathy"},
            {"kind": 7},
            {"kind": "text", "text": 7},
            {"kind": "tool_started", "id": None},
            {"kind": "ended", "outcome": "done"},
            {"kind": "started", "agent_session": "other"},
            {"kind": "raw", "line": "x"},
            {"kind": "terminal_opened", "terminal": "x"},
        ],
    )
    def test_what_is_not_the_agents_to_say_is_raw(self, record: dict[str, Any]) -> None:
        events, verdict = read([record])
        assert events == [Raw(record=record)]
        assert (verdict.outcome, verdict.agent_session, verdict.denied) == ("unproven", None, ())


OK = {"type": "result", "ok": True, "text": "Here."}


class TestVerdicts:
    @pytest.mark.parametrize(
        ("records", "exit", "outcome", "kind"),
        [
            ([OK], Exit(code=0), "done", None),
            ([OK], None, "done", None),
            ([OK], Exit(code=1), "crashed", "crashed"),
            ([OK], Exit(signal=9), "crashed", "crashed"),
            ([], Exit(code=0), "unproven", "unproven"),
            ([INIT], Exit(code=3), "crashed", "crashed"),
            ([{"type": "result", "ok": False, "error": {"kind": "limited"}}], Exit(code=0), "failed", "limited"),
            ([{"type": "result", "ok": False, "error": {"kind": "odd"}}], Exit(code=1), "crashed", "crashed"),
            ([{"type": "result", "ok": False}], Exit(code=1), "crashed", "crashed"),
        ],
    )
    def test_proof(self, records: list[Any], exit: Exit | None, outcome: str, kind: str | None) -> None:
        _, verdict = read(records, exit)
        assert (verdict.outcome, verdict.error and verdict.error.kind) == (outcome, kind)

    def test_a_resumed_turn_must_answer_under_its_id(self) -> None:
        _, verdict = read([INIT, OK], resume=True, agent_session="other")
        assert verdict.error == Problem(
            kind="not_found", message="script was asked to resume other, but began s", hint="Start a new session"
        )

    def test_what_the_agent_said_about_its_failure(self) -> None:
        error = {"kind": "overloaded", "message": "too hot", "hint": "wait"}
        _, verdict = read([{"type": "result", "ok": False, "error": error}])
        assert verdict.error == Problem(kind="overloaded", message="too hot", hint="wait")


def test_conversations_are_found_in_its_files() -> None:
    records = [{"session": "s", "folder": "/f"}, {"prompt": "\nfirst line\nsecond"}, {"text": "x"}]
    assert conversation("s.ndjson", records) == Conversation(id="s", folder="/f", title="first line")
    assert conversation("s.ndjson", []) is None
    assert conversation("s.ndjson", [{"prompt": "x"}]) is None


@pytest.fixture
def turn_of(scripted_agent: ScriptedAgent, tmp_path: Path) -> Any:
    """Launches the real executable as the adapter says and reads what it writes."""

    def run(steps: list[dict[str, Any]] | None, **fields: Any) -> tuple[list[AnyEvent], Verdict]:
        if steps is not None:
            scripted_agent.plays(steps)
        asked = turn(folder=str(tmp_path), **fields)
        launch = AGENT.launch(asked, Host(executable=sys.executable, private=str(tmp_path)))
        for path, content in launch.files.items():
            Path(path).write_bytes(content)
        argv = [sys.executable, "-m", "ostler.testing.agent", *launch.argv[1:]]
        env = {"PATH": os.environ["PATH"], **scripted_agent.env}
        done = subprocess.run(argv, input=launch.stdin, cwd=tmp_path, env=env, capture_output=True, check=False)
        reader = AGENT.reader(asked)
        events: list[AnyEvent] = []
        for line in done.stdout.splitlines():
            record = decode(line)
            events += reader.read(record) if isinstance(record, dict) else [Raw(line=line.decode("utf-8", "replace"))]
        code = done.returncode
        exit = Exit(code=code) if code >= 0 else Exit(signal=-code)
        return events + reader.flush(), reader.end(exit, done.stderr.decode())

    return run


class TestWithTheExecutable:
    def test_the_show(self, turn_of: Any) -> None:
        events, verdict = turn_of(None, access="write", model="m")
        assert (verdict.outcome, verdict.model, verdict.cost_usd) == ("done", "m", 0.0)
        assert not [event for event in events if isinstance(event, Raw)]
        assert [e.name for e in events if isinstance(e, ToolStarted)] == ["write", "shell"]
        assert verdict.text == [e.text for e in events if isinstance(e, Text)][-1]

    def test_a_refusal(self, turn_of: Any) -> None:
        _, verdict = turn_of([{"write": "a.txt"}, {"say": "ok"}])
        assert verdict.denied == (Denial(tool="write", target="a.txt", access="write", reason="access is read"),)
        assert (verdict.outcome, verdict.text) == ("done", "ok")

    def test_garbage_costs_no_neighbour(self, turn_of: Any) -> None:
        events, verdict = turn_of([{"say": "before"}, {"garbage": True}, {"say": "after"}])
        assert [e.text for e in events if isinstance(e, Text)] == ["before", "after"]
        notices = ["invalid \ufffd\ufffd utf-8", "lone \ufffd surrogate", "after the garbage"]
        assert [e.text for e in events if isinstance(e, Notice)] == notices
        assert len([e for e in events if isinstance(e, Raw)]) >= 12
        assert verdict.outcome == "done"

    def test_schema_resume_and_system(self, turn_of: Any) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        _, first = turn_of(None, schema=schema, agent_session="mine")
        assert (first.structured, first.agent_session) == ({"n": 7}, "mine")
        _, second = turn_of([{"history": True}], agent_session="mine", resume=True, prompt="again")
        assert (second.outcome, second.text) == ("done", "do it")
        _, third = turn_of([{"echo": "system"}], system="--help\nü")
        assert third.text == "--help\nü"

    @pytest.mark.parametrize("prompt", ["--version", "--help", "-", "--", "@file", "!cmd", "/exit", "-p\n"])
    def test_prompts_are_literal(self, prompt: str, turn_of: Any) -> None:
        _, verdict = turn_of([{"echo": "prompt"}], prompt=prompt)
        assert verdict.text == prompt

    def test_an_unknown_id(self, turn_of: Any) -> None:
        events, verdict = turn_of(None, agent_session="nope", resume=True)
        assert (events, verdict.outcome) == ([], "crashed")
        assert verdict.error is not None and "no session nope found" in verdict.error.message

    def test_a_flood(self, turn_of: Any) -> None:
        events, verdict = turn_of([{"flood": 20_000}])
        assert len([e for e in events if isinstance(e, TextDelta)]) == 20_000
        assert json.dumps(verdict.text).count("line") == 20_000
