"""The way of one turn, with a real process that behaves well or badly."""

import asyncio
import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ostler.agents import AGENTS
from ostler.agents.script import agent as script
from ostler.agents.script.agent import ScriptReader
from ostler.errors import OstlerError
from ostler.model import (
    AnyEvent,
    Denial,
    Ended,
    Envelope,
    Exit,
    FileChange,
    Limited,
    Limits,
    Notice,
    Problem,
    Raw,
    Started,
    Text,
    ToolEnded,
    ToolStarted,
    Usage,
)
from ostler.process import tree
from ostler.testing import Clock
from waiting import until
from work.scripted import Stable, collect, turn_until


def plain(event):
    """An event without what differs from run to run."""
    blank = {"seq": 0, "at": 0.0, "turn": ""}
    if isinstance(event, ToolEnded):
        blank["duration_ms"] = None
    if isinstance(event, Started):
        blank["agent_session"] = None
    return structs.replace(event, **blank)


async def test_a_whole_turn(stable: Stable) -> None:
    stable.script.plays(
        [
            {"think": "A moment."},
            {"write": {"path": "hay.txt", "content": "hay\n"}},
            {"usage": {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.25}},
            {"say": "There is hay. It is dry. Good. And more."},
        ]
    )
    envelope, events = await stable.turn("feed them", access="write")
    assert (envelope.status, envelope.outcome, envelope.error) == ("ok", "done", None)
    assert envelope.text == "There is hay. It is dry. Good. And more."
    assert envelope.summary == "There is hay. It is dry. Good."
    assert envelope.usage == Usage(input_tokens=10, output_tokens=5)
    assert envelope.cost_usd == 0.25
    assert envelope.exit == Exit(code=0)
    assert envelope.files == (FileChange(path="hay.txt", change="add"),)
    assert envelope.evidence == ("result: ok",)
    assert (envelope.agent, envelope.served_by, envelope.access) == ("script", "script", "write")
    assert envelope.leaked == () and envelope.denied == ()
    kinds = [type(e).__name__ for e in events if not type(e).__name__.endswith("Delta")]
    assert kinds == ["Started", "Thought", "ToolStarted", "ToolEnded", "UsageReport", "Text", "Ended"]
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert {e.turn for e in events} == {envelope.turn}
    assert plain(events[-1]) == Ended(outcome="done")
    tool = next(e for e in events if isinstance(e, ToolEnded))
    assert tool.duration_ms is not None and tool.duration_ms >= 0


async def test_artifacts_are_private_and_complete(stable: Stable) -> None:
    old = os.umask(0)
    try:
        stable.script.plays([{"stderr": "a warning"}, {"write": "made.txt"}, {"say": "ok"}])
        envelope, events = await stable.turn("do it", access="write")
    finally:
        os.umask(old)
    assert set(envelope.artifacts) == {"prompt", "stdout", "stderr", "diff", "events"}
    assert Path(envelope.artifacts["prompt"]).read_text() == "do it"
    assert "a warning" in Path(envelope.artifacts["stderr"]).read_text()
    assert "+written by the scripted agent" in Path(envelope.artifacts["diff"]).read_text()
    lines = Path(envelope.artifacts["events"]).read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [e.seq for e in events[:-1]]
    for path in stable.state.rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize(
    ("steps", "outcome", "kind"),
    [
        ([{"exit": 0}], "unproven", "unproven"),
        ([{"say": "half"}, {"exit": 0}], "unproven", "unproven"),
        ([{"exit": 3}], "crashed", "crashed"),
        ([{"crash": "SEGV"}], "crashed", "crashed"),
        ([{"say": "fine"}, {"exit_after_result": 4}], "crashed", "crashed"),
        ([{"fail": {"kind": "unauthenticated", "message": "log in"}}], "failed", "unauthenticated"),
        ([{"fail": {"kind": "limited", "message": "later"}}], "failed", "limited"),
        ([{"stderr": "HTTP error 429 Too Many Requests"}, {"exit": 1}], "failed", "limited"),
    ],
)
async def test_unproven_work_is_never_ok(stable: Stable, steps: list, outcome: str, kind: str) -> None:
    stable.script.plays(steps)
    envelope, events = await stable.turn()
    assert (envelope.status, envelope.outcome, envelope.error and envelope.error.kind) == ("error", outcome, kind)
    assert [type(e) for e in events].count(Ended) == 1
    assert events[-1].error == envelope.error


async def test_what_was_refused_is_told(stable: Stable) -> None:
    stable.script.plays([{"write": "app.py"}, {"say": "I could not"}])
    envelope, _ = await stable.turn(access="read")
    assert envelope.ok
    assert [structs.replace(d, reason="") for d in envelope.denied] == [
        Denial(tool="write", target="app.py", access="write")
    ]
    assert list(stable.folder.iterdir()) == []


async def test_garbage_between_records_costs_no_record(stable: Stable) -> None:
    stable.script.plays([{"say": "before"}, {"garbage": True}, {"say": "after"}])
    envelope, events = await stable.turn()
    assert envelope.ok and envelope.text == "after"
    assert [e.text for e in events if isinstance(e, Text)] == ["before", "after"]
    assert any(isinstance(e, Raw) for e in events)


async def test_a_flood_is_kept_in_order(stable: Stable) -> None:
    stable.script.plays([{"flood": 5000}, {"say": "dry again"}])
    envelope, events = await stable.turn()
    assert envelope.ok and envelope.text == "dry again"
    assert len(events) > 5000
    assert [e.seq for e in events] == list(range(1, len(events) + 1))


# -- ends and limits


async def test_a_process_that_lingers_is_ended_and_the_turn_is_ok(clock: Clock, stable: Stable) -> None:
    stable.script.plays([{"say": "done"}, {"linger": 600}])
    limits = Limits(linger=300, idle=None, first_record=None)
    envelope, events = await turned_while_it_runs(clock, stable, 301, limits=limits)
    assert envelope.ok
    assert "lingered" in [e.code for e in events if isinstance(e, Notice)]


async def turned_while_it_runs(
    clock: Clock, stable: Stable, seconds: float, **options: Any
) -> tuple[Envelope, list[AnyEvent]]:
    """A turn during which the clock is turned again and again, once its process is there."""
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        running = asyncio.create_task(collect(session, "go", **options))
        await until(lambda: any(tree.marked(row.id) for row in o.store.turns(session.id)))
        events = await turn_until(clock, seconds, running)
        assert session.last is not None
        return session.last, events


async def turned(clock: Clock, stable: Stable, seconds: float, at: type[AnyEvent], **options: Any) -> Envelope:
    """A turn in whose midst, at an event of that type, the clock is turned."""
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        async for event in session.run("go", **options):
            if isinstance(event, at):
                await clock.turn(seconds)
        assert session.last is not None
        return session.last


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(total=600), "the turn took longer than 600 s"),
        (Limits(idle=600), "no output for 600 s"),
    ],
)
async def test_limits_end_a_turn(clock: Clock, stable: Stable, limits: Limits, message: str) -> None:
    stable.script.plays([{"say": "hm"}, {"never_end": True}])
    envelope = await turned(clock, stable, 601, Text, limits=limits)
    assert (envelope.outcome, envelope.error and envelope.error.kind) == ("timed_out", "timed_out")
    assert envelope.error.message == message


async def test_an_agent_that_never_speaks_hits_the_first_limit(clock: Clock, stable: Stable) -> None:
    path = stable.script.plays([])
    path.write_text(json.dumps({"deaf": True}))
    envelope, _ = await turned_while_it_runs(clock, stable, 601, limits=Limits(first_record=600))
    assert (envelope.outcome, envelope.error.message) == ("timed_out", "no output within 600 s")


async def test_idle_time_does_not_count_while_a_tool_runs(clock: Clock, stable: Stable) -> None:
    stable.script.plays([{"run": "until [ -e go ]; do sleep 0.02; done"}, {"say": "rested"}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        async for event in session.run("go", limits=Limits(idle=600)):
            if isinstance(event, ToolStarted):
                for _ in range(3):  # each time the limit is looked at
                    await clock.turn(601)
                (stable.folder / "go").touch()
        assert session.last.ok and session.last.text == "rested"


async def test_retries_end_with_the_kind_that_held_them_up(clock: Clock, stable: Stable) -> None:
    stable.script.plays([{"retry": {"error": "overloaded", "message": "529 busy"}}, {"never_end": True}])
    envelope = await turned(clock, stable, 61, Limited, limits=Limits(retry=60))
    assert (envelope.outcome, envelope.error.kind, envelope.error.message) == ("failed", "overloaded", "529 busy")


async def test_a_cost_limit_ends_the_turn(stable: Stable) -> None:
    stable.script.plays([{"usage": {"input_tokens": 1, "cost_usd": 2.5}}, {"never_end": True}])
    envelope, _ = await stable.turn(limits=Limits(cost_usd=1.0))
    assert (envelope.outcome, envelope.error.kind) == ("failed", "over_budget")


@pytest.mark.parametrize("steps", [[{"never_end": True}], [{"ignore": ["INT", "TERM"]}, {"never_end": True}]])
async def test_cancel_keeps_what_was_said(stable: Stable, steps: list) -> None:
    stable.script.plays([{"say": "so far"}, *steps])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        events = []
        async for event in session.run("go"):
            events.append(event)
            if isinstance(event, Text):
                await session.cancel()
        assert session.last is not None
        assert (session.last.outcome, session.last.status, session.last.text) == ("cancelled", "error", "so far")
        assert plain(events[-1]) == Ended(outcome="cancelled", error=Problem(kind="cancelled", message="cancelled"))
        assert tree.marked(session.last.turn) == []
        assert o.store.session(session.id).state == "idle"


async def test_a_daemon_of_the_agent_is_found_named_and_ended(stable: Stable) -> None:
    pid_file = stable.folder / "pid"
    stable.script.plays([{"double_fork": str(pid_file)}, {"say": "left something"}])
    envelope, _ = await stable.turn(access="full")
    pid = int(pid_file.read_text())
    assert envelope.ok
    assert len(envelope.leaked) == 1 and str(pid) in envelope.leaked[0]
    assert tree.identity(pid) is None


async def test_a_daemon_that_holds_stdout_does_not_hold_the_turn(stable: Stable) -> None:
    stable.script.plays([{"double_fork": {"pid_file": str(stable.folder / "pid"), "hold": True}}, {"say": "bye"}])
    envelope, _ = await stable.turn(access="full")
    assert envelope.ok and len(envelope.leaked) == 1


async def test_leaving_the_loop_cancels_the_turn(stable: Stable) -> None:
    stable.script.plays([{"say": "one"}, {"never_end": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        run = session.run("go")
        async for event in run:
            if isinstance(event, Text):
                break
        await run.aclose()
        assert session.last is not None and session.last.outcome == "cancelled"
        assert tree.marked(session.last.turn) == []


async def test_cancelling_the_caller_at_any_moment_gives_one_end(stable: Stable) -> None:
    """Whatever the turn waits for when its caller is cancelled, it ends once and leaves nothing."""
    stable.script.plays([{"stream": "a b c d e f"}, {"run": "true"}, {"say": "x"}])
    async with stable.ostler() as o:
        ended_early = 0
        for delay in [n * 0.003 for n in range(40)]:
            session = await o.session("script", folder=str(stable.folder))
            task = asyncio.create_task(collect(session, "go", access="full"))
            await asyncio.sleep(delay)
            task.cancel()
            result = (await asyncio.gather(task, return_exceptions=True))[0]
            ended_early += isinstance(result, asyncio.CancelledError)
            rows = o.store.turns(session.id)
            if rows:  # it had begun
                kinds = [e for e in o.store.events(session.id) if isinstance(e, Ended)]
                assert len(kinds) == 1, delay
                assert [row.state for row in rows] == ["ended"]
                assert o.store.session(session.id).state == "idle"
                assert tree.marked(rows[0].id) == []
        assert ended_early > 3


async def test_a_slow_reader_loses_nothing(stable: Stable) -> None:
    stable.script.plays([{"flood": 9000}, {"say": "end"}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        seen = []
        async for event in session.run("go"):
            if event.seq == 5:
                await until(lambda: o.store.session(session.id).state == "idle")
            seen.append(event.seq)
        assert seen == list(range(1, len(seen) + 1)) and len(seen) > 9000


# -- schema, fallback, attachments

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_a_structured_answer_is_validated(stable: Stable) -> None:
    stable.script.plays([{"structured": {"n": 3}}, {"say": "three"}])
    envelope, _ = await stable.turn(schema=SCHEMA)
    assert envelope.ok and envelope.structured == {"n": 3}
    assert json.loads(Path(envelope.artifacts["structured"]).read_text()) == {"n": 3}


async def test_an_answer_that_does_not_fit_is_repaired_once(stable: Stable) -> None:
    stable.script.plays(
        {"turn": 1, "steps": [{"structured": {"n": "three"}}, {"say": "three"}]},
        {"turn": 2, "steps": [{"structured": {"n": 3}}, {"say": "3"}]},
    )
    envelope, events = await stable.turn(schema=SCHEMA)
    assert envelope.ok and envelope.structured == {"n": 3}
    assert [e.code for e in events if isinstance(e, Notice)] == ["repair"]
    assert len(stable.script.launches) == 2
    assert len({launch.session for launch in stable.script.launches}) == 1


async def test_an_answer_that_never_fits_is_invalid_output(stable: Stable) -> None:
    stable.script.plays([{"structured": {"n": None}}, {"say": "none"}])
    envelope, _ = await stable.turn(schema=SCHEMA)
    assert (envelope.outcome, envelope.error.kind, envelope.structured) == ("failed", "invalid_output", None)
    assert len(stable.script.launches) == 2


async def test_fallback_before_any_work(stable: Stable) -> None:
    stable.script.plays(
        {"match": "^go", "turn": 1, "steps": [{"fail": {"kind": "limited", "message": "quota"}}]},
    )
    stable.script.plays([{"fail": {"kind": "limited", "message": "quota"}}])
    envelope, events = await stable.turn(agent="claude", fallback=("codex", "gemini"))
    assert envelope.agent == "gemini"
    assert envelope.error is not None and envelope.error.kind == "limited"
    assert [e.text for e in events if isinstance(e, Notice)] == [
        "claude: quota; codex takes the turn",
        "codex: quota; gemini takes the turn",
    ]


async def test_no_fallback_after_work_was_done(stable: Stable) -> None:
    """But for a quota that ended: tests/work/sessions/test_successors.py."""
    stable.script.plays([{"say": "I began"}, {"fail": {"kind": "overloaded", "message": "503"}}])
    envelope, events = await stable.turn(agent="claude", fallback=("codex",))
    assert envelope.agent == "claude" and envelope.error.kind == "overloaded"
    assert not [e for e in events if isinstance(e, Notice)]


async def test_fallback_when_the_first_agent_is_not_installed(stable: Stable) -> None:
    async with stable.ostler(OSTLER_ONLY="", PATH="/nonexistent") as o:
        session = await o.session("claude", folder=str(stable.folder))
        events = await collect(session, "go", fallback=("script",))
        assert session.last.ok and session.last.agent == "script"
        assert [e.text for e in events if isinstance(e, Notice)] == [
            "claude: `claude` is not on PATH; script takes the turn"
        ]
        assert o.store.session(session.id).agent == "script"


def stand_in(path: Path, agent: str, capture: str) -> None:
    """A program that knows the flags of a real CLI, keeps what it is told, and says what the real one said once."""
    captures = Path(__file__).parents[2] / "captures" / agent
    path.write_text(
        f'#!/bin/sh\ncase "$1" in\n--version) echo 9.9.9;;\n--help) cat {captures}/help.txt;;\n'
        f"*) cat > {path}.stdin; cat {captures}/{capture}.ndjson;;\nesac\n"
    )
    path.chmod(0o755)


async def test_an_agent_that_takes_over_a_later_turn_is_told_the_system_prompt(stable: Stable, tmp_path: Path) -> None:
    """It begins a conversation of its own, so this is its first turn, whatever the session had before."""
    programs = tmp_path / "programs"
    programs.mkdir()
    stand_in(programs / "claude", "claude", "append-system-prompt")
    stand_in(programs / "gemini", "gemini", "session-id")
    async with stable.ostler(OSTLER_ONLY="", PATH=f"{programs}:{os.environ['PATH']}") as o:
        session = await o.session("claude", folder=str(stable.folder), system="Speak in rhymes.")
        await collect(session, "one")
        assert session.last is not None and session.last.ok
        (programs / "claude").unlink()
        kept = stable.home / ".claude/projects/p" / f"{session.last.agent_session}.jsonl"
        kept.parent.mkdir(parents=True)
        kept.touch()
        await collect(session, "two", fallback=("gemini",))
        assert session.last.agent == "gemini" and session.last.ok
    assert (programs / "gemini.stdin").read_text() == "Speak in rhymes.\n\ntwo"


async def test_a_missing_agent_leaves_nothing_behind(stable: Stable) -> None:
    async with stable.ostler(OSTLER_ONLY="", PATH="/nonexistent") as o:
        session = await o.session("gemini", folder=str(stable.folder))
        with pytest.raises(OstlerError) as caught:
            await collect(session, "go")
        assert (caught.value.kind, caught.value.message) == ("missing", "`gemini` is not on PATH")
        assert caught.value.hint.startswith("Install: npm")
        assert o.sessions() == []
        assert not (stable.state / "turns").exists() or not any((stable.state / "turns").rglob("*"))


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        ("qwen", "its edits are not kept inside the folder"),
        ("opencode", "its edits follow links out of the folder, and reach .git/hooks"),
    ],
)
async def test_an_access_that_cannot_be_promised_is_denied_unless_accepted(
    stable: Stable, agent: str, why: str
) -> None:
    async with stable.ostler(OSTLER_ONLY="", PATH="/nonexistent") as o:
        session = await o.session(agent, folder=str(stable.folder))
        with pytest.raises(OstlerError) as caught:
            await collect(session, "go", access="write")
        assert (caught.value.kind, caught.value.message) == (
            "denied",
            f"{agent} cannot promise --access write: {why}",
        )
        assert "loose" in caught.value.hint and o.sessions() == []
    async with stable.ostler(OSTLER_ONLY="", PATH="/nonexistent", OSTLER_LOOSE=agent) as o:
        with pytest.raises(OstlerError) as caught:
            await collect(await o.session(agent, folder=str(stable.folder)), "go", access="write")
        assert caught.value.kind == "missing"


@pytest.mark.parametrize("agent", [name for name in AGENTS if name != "script"])
async def test_a_flag_that_the_binary_does_not_name_is_said_before_anything_runs(stable: Stable, agent: str) -> None:
    """An older CLI: its help has what every launch needs, but not the flag for a model."""
    binary = stable.home / "bin" / AGENTS[agent].binaries[0]
    binary.parent.mkdir()
    binary.write_text(f"#!/bin/sh\nprintf '1.0 %s' '{' '.join(AGENTS[agent].needs)}'\n")
    binary.chmod(0o755)
    async with stable.ostler(OSTLER_ONLY="", PATH=f"{binary.parent}:{os.environ['PATH']}") as o:
        session = await o.session(agent, folder=str(stable.folder))
        with pytest.raises(OstlerError) as caught:
            await collect(session, "go", access="full", model="some/model")
        assert caught.value.kind == "unsupported" and f"{agent} 1.0 has no --" in caught.value.message
        assert o.sessions() == []


async def test_a_recording_is_labelled_with_the_agent_that_spoke(stable: Stable, tmp_path: Path) -> None:
    from ostler.testing import Recorder, cassette_agent

    stable.script.plays([{"say": "hi"}])
    await stable.turn("hello", agent="claude", record=Recorder(tmp_path / "tape"))
    assert cassette_agent(tmp_path / "tape") == "script"
    assert json.loads((tmp_path / "tape").read_text().splitlines()[0])["prompt"] == "hello"


async def test_attachments_reach_the_agent(stable: Stable) -> None:
    (stable.folder / "plan.txt").write_text("x")
    stable.script.plays([{"echo": "attach"}])
    envelope, _ = await stable.turn(attachments=[str(stable.folder / "plan.txt")])
    assert str(stable.folder / "plan.txt") in envelope.text


@pytest.mark.parametrize(
    ("prompt", "message"),
    [("", "the prompt is empty"), (" \n", "the prompt is empty"), ("a\0b", "the prompt contains a NUL character")],
)
async def test_bad_prompts_are_refused_before_anything(stable: Stable, prompt: str, message: str) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        with pytest.raises(OstlerError) as caught:
            await collect(session, prompt)
        assert (caught.value.kind, caught.value.message) == ("bad_request", message)
        assert o.sessions() == [] and stable.script.launches == []


async def test_tools_are_closed_even_when_the_agent_dies(stable: Stable) -> None:
    stable.script.plays([{"tool": {"name": "shell", "input": {"command": "make"}, "ended": False}}, {"crash": "KILL"}])
    envelope, events = await stable.turn()
    assert envelope.outcome == "crashed"
    assert [type(e) for e in events if isinstance(e, ToolStarted | ToolEnded)] == [ToolStarted, ToolEnded]


# -- secrets

CANARY = "sk-canary-8f2d6b1e9a7c4d5f"


async def test_secrets_stay_off_the_disk(stable: Stable) -> None:
    stable.script.plays(
        [
            {"stream": {"text": f"the key is {CANARY}, keep it"}},
            {"stderr": CANARY},
            {"run": f"echo {CANARY}"},
            {"say": CANARY},
        ]
    )
    async with stable.ostler(ANTHROPIC_API_KEY=CANARY) as o:
        session = await o.session("script", folder=str(stable.folder), system=f"Keep {CANARY}", model=CANARY)
        events = await collect(session, f"use {CANARY}", access="full", system=f"Keep {CANARY}")
        assert CANARY not in repr(events) and CANARY not in repr(session.last)
        assert session.last.ok
    for path in stable.state.rglob("*"):
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes(), path


async def test_deltas_joined_from_the_raw_output_give_no_secret(stable: Stable) -> None:
    key = "correct horse battery staple"  # the scripted agent streams word by word
    stable.script.plays([{"stream": {"text": f"the key is {key}, keep it", "whole": False}}, {"say": "ok"}])
    async with stable.ostler(ANTHROPIC_API_KEY=key) as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "go")
        raw = Path(session.last.artifacts["stdout"]).read_text()
    records = [json.loads(line) for line in raw.splitlines()]
    assert sum(record.get("kind") == "text_delta" for record in records) > 5
    said = "".join(record["text"] for record in records if record.get("kind") == "text_delta")
    assert said == f"the key is {'*' * len(key)}, keep it"


async def test_the_agent_gets_an_allow_listed_environment(stable: Stable) -> None:
    stable.script.plays([{"run": "env"}, {"say": "ok"}])
    async with stable.ostler(SECRET_THING="x", CLAUDECODE="1", MY_TOKEN="abcdefghijklmnop") as o:
        session = await o.session("script", folder=str(stable.folder))
        events = await collect(session, "go", access="full", env={"ADDED": "yes"})
        output = next(e.output for e in events if isinstance(e, ToolEnded))
        names = {line.split("=")[0] for line in output.splitlines()}
        assert {"PATH", "HOME", "OSTLER_TURN", "ADDED"} <= names
        assert names & {"SECRET_THING", "CLAUDECODE", "MY_TOKEN", "OSTLER_HOME", "OSTLER_ONLY"} == set()


async def test_a_broken_adapter_costs_its_records_and_says_so_once(
    stable: Stable, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(ScriptReader):
        def read(self, record):
            if record.get("kind") in ("text", "thought"):
                raise KeyError("speed") if record["kind"] == "text" else ValueError("no thought")
            return super().read(record)

        def read_stderr(self, line):
            raise RuntimeError("deaf")

    monkeypatch.setattr(script, "AGENT", structs.replace(script.AGENT, reader=Broken))
    stable.script.plays([{"say": "one"}, {"think": "hm"}, {"say": "two"}, {"say": "three"}, {"stderr": "a log\nmore"}])
    envelope, events = await stable.turn("go")
    assert envelope.outcome == "done"
    raw = [e for e in events if isinstance(e, Raw)]
    assert [json.loads(e.line)["kind"] for e in raw if e.stream == "stdout"] == ["text", "thought", "text", "text"]
    assert [e.line for e in raw if e.stream == "stderr"] == ["a log", "more"]
    told = sorted(e.text for e in events if isinstance(e, Notice) and e.code == "adapter_error" and e.quiet)
    assert ["KeyError" in told[0], "RuntimeError" in told[1], "ValueError" in told[2]] == [True] * 3
    assert len(told) == 3 and all("test_run.py:" in text for text in told)


async def test_a_success_that_comes_after_a_cancel_is_none(stable: Stable, tmp_path: Path) -> None:
    """A program that is interrupted and then says that all went well."""
    program, captures = tmp_path / "claude", Path(__file__).parents[2] / "captures" / "claude"
    program.write_text(
        f"""#!/bin/sh
case "$1" in
  --version) echo 9.9.9; exit;;
  --help) cat {captures}/help.txt; exit;;
esac
trap 'cat {captures}/append-system-prompt.ndjson; exit 0' INT
echo '{{"type":"system","subtype":"init","session_id":"46f489f2-3544-4494-9c3a-39ad6c73a3ab"}}'
while :; do sleep 0.05; done
"""
    )
    program.chmod(0o755)
    async with stable.ostler(OSTLER_ONLY="", PATH=f"{tmp_path}:{os.environ['PATH']}") as o:
        session = await o.session("claude", folder=str(stable.folder))
        async for event in session.run("go"):
            if isinstance(event, Started):
                await session.cancel()
    assert (session.last.status, session.last.outcome, session.last.error.kind) == ("error", "cancelled", "cancelled")


async def test_the_clock_of_the_machine_may_be_set_while_a_turn_runs(
    stable: Stable, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    stable.script.plays([{"write": "hay.txt"}, {"say": "done"}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        events = []
        async for event in session.run("go", access="write"):
            events.append(event)
            monkeypatch.setattr(time, "time", lambda: real() - 86_400 * len(events))
    assert session.last and 0 < session.last.duration_ms < 600_000
    assert all(0 <= e.duration_ms < 600_000 for e in events if isinstance(e, ToolEnded))
    assert structs.asdict(session.last)["status"] == "ok"
