"""ACP agents that behave badly, as real processes: a typed error, or a turn that is none the worse."""

import asyncio
import json
import resource
import sys
from pathlib import Path

import pytest

from ostler.agents.acp import rpc
from ostler.agents.acp.dialog import AcpDialog
from ostler.errors import OstlerError
from ostler.model import (
    EVENT_ENCODER,
    Answered,
    AnyEvent,
    Asked,
    Envelope,
    Limits,
    Notice,
    Raw,
    Text,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from ostler.process import tree
from ostler.testing import Clock
from ostler.work.dialogs.asks import AskAnswer
from ostler.work.dialogs.call_terminals import CallTerminals
from waiting import until
from work.acp_yard import AcpYard, pid_of, turn
from work.scripted import turn_until

AGENT = Path(__file__).parent / "hostile_acp.py"


def yard_of(tmp_path: Path, name: str) -> AcpYard:
    return AcpYard(tmp_path, (sys.executable, "-I", "-S", str(AGENT), name))


async def one(yard: AcpYard, **options: object) -> tuple[Envelope, list[AnyEvent]]:
    """One turn; nothing of its process is left after it."""
    async with yard.ostler() as o:
        live = await yard.session(o)
        found = await turn(o, live, "hello", **options)  # type: ignore[arg-type]
    assert tree.marked(live.id) == []
    return found


@pytest.mark.parametrize(
    "name",
    [
        *("kind", "banner", "not-objects", "garbage-after", "wrong-id", "late-update", "answers-notifications"),
        *("stderr", "request-flood", "strange-updates"),
    ],
)
async def test_a_turn_is_none_the_worse(tmp_path: Path, name: str) -> None:
    yard = yard_of(tmp_path, name)
    async with yard.ostler() as o:
        live = await yard.session(o)
        for _ in range(2):
            envelope, events = await turn(o, live, "hello")
            assert (envelope.outcome, envelope.text, envelope.error) == ("done", "fine", None)
            assert [e.text for e in events if isinstance(e, Text)] == ["fine"]
            assert not any(isinstance(e, ToolStarted) and e.id == "late" for e in events)
        pid = pid_of(o, live)
    assert tree.identity(pid) is None


async def test_asks_that_nobody_could_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are refused at once; those that are open when the turn ends are cancelled, and the next turn can ask."""
    monkeypatch.setattr(rpc, "MAX_OPEN", 100)
    yard = yard_of(tmp_path, "asks-for-all")
    async with yard.ostler() as o:
        live = await yard.session(o)
        for _ in range(2):
            envelope, events = await turn(o, live, "hello", "")
            assert (envelope.outcome, envelope.text) == ("done", "fine")
            assert [type(e) for e in events].count(Asked) == 100
            answers = [(e.option, e.by) for e in events if isinstance(e, Answered)]
            assert answers == [("cancelled", "the agent")] * 100


async def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    envelope, events = await one(yard_of(tmp_path, "invalid-utf8"))
    assert (envelope.outcome, envelope.text) == ("done", "a\ufffd\ufffdb\ufffdc")
    assert [e.line for e in events if isinstance(e, Raw)] == ["\ufffd\ufffd\0\ufffd"]


async def test_what_is_unknown_is_kept(tmp_path: Path) -> None:
    _, events = await one(yard_of(tmp_path, "strange-updates"))
    raw = [e.record for e in events if isinstance(e, Raw) and isinstance(e.record, dict)]
    assert {"sessionUpdate": "of tomorrow", "deep": {"x": [1, None, 2.5]}} in raw


@pytest.mark.parametrize(("name", "notices"), [("big-line", []), ("long-line", ["line_cut"])])
async def test_lines_that_are_long_and_too_long(tmp_path: Path, name: str, notices: list[str]) -> None:
    envelope, events = await one(yard_of(tmp_path, name))
    assert (envelope.outcome, envelope.text) == ("done", "fine")
    assert [e.code for e in events if isinstance(e, Notice)] == notices


async def test_what_stands_in_meta_is_no_parameter(tmp_path: Path) -> None:
    yard = yard_of(tmp_path, "forged-meta")
    envelope, _ = await one(yard)
    assert (envelope.outcome, envelope.text) == ("done", "fine")
    assert (yard.folder / "ok.txt").read_text() == "ok"


@pytest.mark.parametrize(
    ("name", "outcome", "kind", "words"),
    [
        ("exits-at-once", "crashed", "crashed", "exit code 0"),
        ("help", "failed", "unsupported", "not an ACP agent: it printed 'usage: friendly"),
        ("dies-in-initialize", "crashed", "crashed", "signal 11"),
        ("version-2", "failed", "unsupported", "version 2"),
        ("version-none", "failed", "unsupported", "no version"),
        ("needs-login", "failed", "unauthenticated", "Authentication required"),
        ("no-session", "failed", "unsupported", "named no session"),
        ("echo", "failed", "unsupported", "echoes its input"),
        ("exits", "crashed", "crashed", "in the middle of the turn"),
        ("both", "crashed", "crashed", "or not"),
    ],
)
async def test_a_turn_that_cannot_be(tmp_path: Path, name: str, outcome: str, kind: str, words: str) -> None:
    envelope, _ = await one(yard_of(tmp_path, name))
    assert envelope.error is not None
    assert (envelope.status, envelope.outcome, envelope.error.kind) == ("error", outcome, kind)
    assert words in envelope.error.message
    if kind == "unauthenticated":
        assert envelope.error.hint == "Run `friendly login`"


async def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(OstlerError) as refused:
        await one(AcpYard(tmp_path, ("no-such-program-here", "--acp")))
    assert (refused.value.kind, refused.value.hint) == ("missing", "Fix acp.mine in your settings")


async def test_an_agent_that_never_speaks(clock: Clock, tmp_path: Path) -> None:
    running = asyncio.create_task(one(yard_of(tmp_path, "mute"), limits=Limits(first_record=600)))
    envelope, _ = await turn_until(clock, 601, running)
    assert envelope.error is not None
    assert (envelope.outcome, envelope.error.kind) == ("timed_out", "timed_out")


async def test_an_opening_can_be_cancelled(tmp_path: Path) -> None:
    yard = yard_of(tmp_path, "mute")
    async with yard.ostler() as o:
        live = await yard.session(o)
        running = asyncio.create_task(turn(o, live, "hello"))
        await until(lambda: tree.marked(live.id))
        await o.cancel(live.id)
        envelope, _ = await running
        assert envelope.outcome == "cancelled"
        await until(lambda: not tree.marked(live.id))  # a process of which ostler had not heard yet ends a moment later


@pytest.mark.parametrize("name", ["never-responds", "never-responds-twice"])
async def test_a_turn_that_never_ends_is_ended_with_its_process(clock: Clock, tmp_path: Path, name: str) -> None:
    yard = yard_of(tmp_path, name)
    async with yard.ostler() as o:
        live = await yard.session(o)
        running = asyncio.create_task(turn(o, live, "hello", limits=Limits(total=600)))
        await until(lambda: any(isinstance(event, TextDelta) for event in o.events(live.id)))  # it has the prompt
        envelope, events = await turn_until(clock, 601, running)
        assert envelope.error is not None
        assert (envelope.outcome, envelope.error.kind) == ("timed_out", "timed_out")
        assert "not_interrupted" in [e.code for e in events if isinstance(e, Notice)]
        assert tree.marked(live.id) == []


async def test_an_agent_that_talks_and_never_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ostler.work.dialogs.live_dialog.UNREAD_CAP", 1 << 20)
    envelope, _ = await one(yard_of(tmp_path, "never-reads"))
    assert envelope.error is not None and envelope.error.kind == "undelivered"


@pytest.mark.long
async def test_tens_of_thousands_of_updates_with_a_slow_reader(tmp_path: Path) -> None:
    """What nobody has read yet lies in the store, not in memory; what we have not taken yet holds the agent back."""
    yard = yard_of(tmp_path, "flood")
    async with yard.ostler() as o:
        live = await yard.session(o)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        said, count = [], 0
        async for event in live.run("hello"):
            if isinstance(event, TextDelta):
                said.append(event.text)
                count += 1
                if count % 2000 == 0:
                    await asyncio.sleep(0.05)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert live.last is not None and live.last.ok
        assert "".join(said).split() == [str(number) for number in range(40_000)]
        assert grown < 60_000  # KB; without back-pressure or with events kept in memory it is several times that


async def test_many_tools_in_one_turn(tmp_path: Path) -> None:
    envelope, events = await one(yard_of(tmp_path, "tool-flood"))
    assert len([e for e in events if isinstance(e, ToolEnded)]) == 5_000
    kept = Path(envelope.artifacts["events"]).read_bytes().splitlines()
    assert kept == [EVENT_ENCODER.encode(e) for e in events[:-1]]  # all but the end, which tells of them


async def test_every_malformed_request_is_answered_as_invalid(tmp_path: Path) -> None:
    """Each method that ostler serves, with wrong values of each of its fields; none waits for ever."""
    yard = yard_of(tmp_path, "malformed")
    (yard.folder / "here.txt").write_text("x")
    envelope, events = await one(yard, limits=Limits(total=60))
    assert envelope.outcome == "done", envelope.error
    answers = [tuple(each) for each in json.loads(envelope.text)]
    assert len(answers) > 200
    assert [each for each in answers if each[3] != -32602] == []
    assert not [e for e in events if isinstance(e, Asked | Notice)]


async def test_what_an_adapter_stumbles_over_is_kept_told_once_and_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no good")

    monkeypatch.setattr(AcpDialog, "_permission", broken)
    monkeypatch.setattr(CallTerminals, "create", broken)
    envelope, events = await one(yard_of(tmp_path, "asks-and-calls"), limits=Limits(total=60))
    assert envelope.outcome == "done", envelope.error
    answers = {frame["id"]: frame["error"]["code"] for frame in json.loads(envelope.text)}
    assert answers == {1: -32603, 2: -32603}
    assert [json.loads(e.line)["method"] for e in events if isinstance(e, Raw)] == ["session/request_permission"]
    told = [e for e in events if isinstance(e, Notice)]
    assert [(e.code, e.quiet) for e in told] == [("adapter_error", True)]  # of both, since they raise at one place
    assert "RuntimeError in test_acp_hostile.py" in told[0].text and "no good" in told[0].text
    assert "RuntimeError" in caplog.text and "no good" not in caplog.text


@pytest.mark.parametrize(("method", "prompt"), [("reply", "[[read:here.txt]]"), ("answer", "[[ask:{}]]")])
async def test_an_adapter_that_cannot_say_what_the_agent_waits_for_ends_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, prompt: str
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no good")

    yard = AcpYard(tmp_path)
    (yard.folder / "here.txt").write_text("x")
    async with yard.ostler() as o:
        live, answers = await yard.session(o), []
        with monkeypatch.context() as patched:
            patched.setattr(AcpDialog, method, broken)
            async for event in live.run(prompt, transport="dialog"):
                if isinstance(event, Asked):
                    answers.append(asyncio.ensure_future(o.answer(live.id, AskAnswer(ask=event.id, option="allow"))))
            await asyncio.gather(*answers, return_exceptions=True)
        assert live.last is not None and live.last.error is not None
        assert live.last.error.kind == "crashed" and "no good" in live.last.error.message
        assert not tree.marked(live.id)
        envelope, _ = await turn(o, live, "[[say:two]]")
        assert envelope.ok


@pytest.mark.parametrize("why", ["cancel", "limit"])
async def test_what_ostler_ended_is_no_success(clock: Clock, tmp_path: Path, why: str) -> None:
    """copilot 1.0.79 answers a cancel with `end_turn`, as if it had done its work."""
    yard = yard_of(tmp_path, "ends-well-when-cancelled")
    async with yard.ostler() as o:
        live = await yard.session(o)
        async for event in live.run("hello", transport="dialog", limits=Limits(total=600)):
            if isinstance(event, TextDelta):
                await (o.cancel(live.id) if why == "cancel" else clock.turn(601))
    outcome = "cancelled" if why == "cancel" else "timed_out"
    assert (live.last.status, live.last.outcome, live.last.error.kind) == ("error", outcome, outcome)
    assert live.last.text == "working and done"  # what it said is kept
