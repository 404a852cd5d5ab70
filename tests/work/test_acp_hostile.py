"""ACP agents that behave badly, as real processes: a typed error, or a turn that is none the worse."""

import asyncio
import resource
import sys
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.process import tree
from ostler.words import (
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
from work.acp_yard import AcpYard, pid_of, turn
from work.scripted import until

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


async def test_asks_that_nobody_could_answer(tmp_path: Path) -> None:
    """Some are refused at once; those that are open when the turn ends are cancelled, and the next turn can ask."""
    yard = yard_of(tmp_path, "asks-for-all")
    async with yard.ostler() as o:
        live = await yard.session(o)
        for _ in range(2):
            envelope, events = await turn(o, live, "hello", "")
            assert (envelope.outcome, envelope.text) == ("done", "fine")
            assert [type(e) for e in events].count(Asked) == 1000
            answers = [(e.option, e.by) for e in events if isinstance(e, Answered)]
            assert answers == [("cancelled", "the agent")] * 1000


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
        ("help", "failed", "unsupported", "no ACP agent: it printed 'usage: friendly"),
        ("dies-in-initialize", "crashed", "crashed", "signal 11"),
        ("version-2", "failed", "unsupported", "version 2"),
        ("version-none", "failed", "unsupported", "no version"),
        ("needs-login", "failed", "unauthenticated", "Authentication required"),
        ("no-session", "failed", "unsupported", "named no session"),
        ("echo", "failed", "unsupported", "says back"),
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
    assert (refused.value.kind, refused.value.hint) == ("missing", "Mend acp.mine in your settings")


async def test_an_agent_that_never_speaks(tmp_path: Path) -> None:
    envelope, _ = await one(yard_of(tmp_path, "mute"), limits=Limits(first_record=0.5))
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
        assert tree.marked(live.id) == []


@pytest.mark.parametrize("name", ["never-responds", "never-responds-twice"])
async def test_a_turn_that_never_ends_is_ended_with_its_process(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ostler.work.live_dialog.INTERRUPT", 0.2)
    monkeypatch.setattr("ostler.work.live_dialog.GIVE_UP", 0.2)
    yard = yard_of(tmp_path, name)
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, events = await turn(o, live, "hello", limits=Limits(total=1.0))
        assert envelope.error is not None
        assert (envelope.outcome, envelope.error.kind) == ("timed_out", "timed_out")
        assert "not_interrupted" in [e.code for e in events if isinstance(e, Notice)]
        assert tree.marked(live.id) == []


async def test_an_agent_that_talks_and_never_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ostler.work.live_dialog.UNREAD_CAP", 1 << 20)
    envelope, _ = await one(yard_of(tmp_path, "never-reads"))
    assert envelope.error is not None and envelope.error.kind == "undelivered"


async def test_a_hundred_thousand_updates_with_a_slow_reader(tmp_path: Path) -> None:
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
                if count % 5000 == 0:
                    await asyncio.sleep(0.05)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert live.last is not None and live.last.ok
        assert "".join(said).split() == [str(number) for number in range(100_000)]
        assert grown < 150_000  # KB; without back-pressure or with events kept in memory it is several times that


async def test_many_tools_in_one_turn(tmp_path: Path) -> None:
    envelope, events = await one(yard_of(tmp_path, "tool-flood"))
    assert len([e for e in events if isinstance(e, ToolEnded)]) == 20_000
    kept = Path(envelope.artifacts["events"]).read_bytes().splitlines()
    assert kept == [EVENT_ENCODER.encode(e) for e in events[:-1]]  # all but the end, which tells of them
