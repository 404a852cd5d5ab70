"""The scripted agent in a dialog: many turns of one process, asks that somebody answers, interrupts."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.model import Answered, AnyEvent, Asked, Ended, Envelope, Text, ToolEnded
from ostler.process import tree
from ostler.settings import load_settings
from ostler.work import LiveSession, Ostler
from ostler.work.dialogs.asks import AskAnswer
from waiting import until


@pytest.fixture
async def ostler(tmp_path: Path) -> AsyncIterator[Ostler]:
    environ = {
        "HOME": str(tmp_path),
        "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
        "OSTLER_ONLY": "script",
        "OSTLER_SCRIPT_SPEED": "0",
        "OSTLER_WALLS": "off",  # the folder is the home
    }
    async with Ostler(load_settings(folder=str(tmp_path), environ=environ).settings, environ) as o:
        yield o


async def turn(o: Ostler, live: LiveSession, prompt: str, answer: str = "") -> tuple[Envelope, list[AnyEvent]]:
    events = []
    async for event in live.run(prompt, transport="dialog"):
        events.append(event)
        if isinstance(event, Asked) and answer:
            await o.answer(live.id, AskAnswer(ask=event.id, option=answer, by="a person"))
    assert live.last is not None
    return live.last, events


async def test_turns_share_a_process_and_a_conversation(ostler: Ostler, tmp_path: Path) -> None:
    live = await ostler.session("script", folder=str(tmp_path))
    pids = set()
    for prompt, said in (("[[say:one]]", "one"), ("[[say:two]]", "two"), ("[[history]]", "[[say:one]]\n[[say:two]]")):
        envelope, events = await turn(ostler, live, prompt)
        assert (envelope.outcome, envelope.text) == ("done", said)
        assert [type(e) for e in events].count(Ended) == 1
        pids.add(ostler.dialogs._live[live.id].dialog.process.pid)
    assert len(pids) == 1
    await ostler.dialogs.close(live.id)
    assert not any(map(tree.identity, pids))
    envelope, _ = await turn(ostler, live, "[[history]]")
    assert envelope.text.startswith("[[say:one]]")


@pytest.mark.parametrize(("answer", "kind", "made"), [("allow", "allow_once", True), ("deny", "reject_once", False)])
async def test_an_ask_waits_for_its_answer(ostler: Ostler, tmp_path: Path, answer: str, kind: str, made: bool) -> None:
    live = await ostler.session("script", folder=str(tmp_path), access="write")
    ask = '[[ask:{"tool": "shell", "input": {"command": "touch x"}, "then": [{"run": "touch made.txt"}]}]][[say:so]]'
    envelope, events = await turn(ostler, live, ask, answer)
    assert (envelope.outcome, envelope.text) == ("done", "so")
    assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [(kind, "a person")]
    assert (tmp_path / "made.txt").exists() is made
    assert [d.tool for d in envelope.denied] == ([] if made else ["shell"])
    assert [e.ok for e in events if isinstance(e, ToolEnded)] == ([True] if made else [])


@pytest.mark.parametrize("step", ["[[run:sleep 99]]", "[[never_end]]", "[[ask:{}]]"])
async def test_an_interrupt_ends_the_turn_alone(ostler: Ostler, tmp_path: Path, step: str) -> None:
    live = await ostler.session("script", folder=str(tmp_path), access="write")
    busy = asyncio.create_task(turn(ostler, live, f"[[say:begun]]{step}"))
    await until(lambda: any(isinstance(e, Text) for e in ostler.events(live.id)))
    pid = ostler.dialogs._live[live.id].dialog.process.pid
    await live.cancel()
    envelope, _ = await busy
    assert (envelope.outcome, envelope.error and envelope.error.kind) == ("cancelled", "cancelled")
    envelope, _ = await turn(ostler, live, "[[say:again]]")
    assert (envelope.outcome, envelope.text) == ("done", "again")
    assert ostler.dialogs._live[live.id].dialog.process.pid == pid


async def test_a_turn_that_others_ran_is_known_to_the_next_one(ostler: Ostler, tmp_path: Path) -> None:
    live = await ostler.session("script", folder=str(tmp_path))
    assert (await turn(ostler, live, "[[say:mine]]"))[0].ok
    pid = ostler.dialogs._live[live.id].dialog.process.pid
    async with Ostler(ostler.settings, ostler.setup.environ) as other:
        theirs = await other.session(session=live.id)
        assert (await turn(other, theirs, "[[say:theirs]]"))[0].ok
    assert tree.identity(pid)  # it is idle, and has not heard of it
    envelope, _ = await turn(ostler, live, "[[history]]")
    assert envelope.text == "[[say:mine]]\n[[say:theirs]]"
    assert not tree.identity(pid)


async def test_a_turn_of_its_own_process_ends_the_dialog(ostler: Ostler, tmp_path: Path) -> None:
    live = await ostler.session("script", folder=str(tmp_path))
    assert (await turn(ostler, live, "[[say:one]]"))[0].ok
    pid = ostler.dialogs._live[live.id].dialog.process.pid
    async for _ in live.run("[[say:two]]"):
        pass
    assert live.last is not None and live.last.ok and not tree.identity(pid)
    assert (await turn(ostler, live, "[[history]]"))[0].text == "[[say:one]]\n[[say:two]]"


async def test_a_dialog_that_is_closed_for_being_idle_takes_no_turn_with_it(ostler: Ostler, tmp_path: Path) -> None:
    """Turns come just when the time is up: each finds the process, or another one."""
    ostler.dialogs._idle = 0.0005
    live = await ostler.session("script", folder=str(tmp_path))
    pids = set()
    for number in range(40):
        envelope, _ = await turn(ostler, live, f"[[say:{number}]]")
        assert (envelope.outcome, envelope.text) == ("done", str(number))
        pids |= {held.dialog.process.pid for held in ostler.dialogs._live.values()}
        await asyncio.sleep(0.0001 * (number % 10))
    await ostler.dialogs.close()
    assert not any(map(tree.identity, pids))


async def test_a_process_that_dies_is_replaced(ostler: Ostler, tmp_path: Path) -> None:
    live = await ostler.session("script", folder=str(tmp_path))
    assert (await turn(ostler, live, "[[say:one]]"))[0].ok
    envelope, _ = await turn(ostler, live, "[[crash:KILL]]")
    assert envelope.outcome == "crashed"
    envelope, _ = await turn(ostler, live, "[[history]]")
    assert (envelope.outcome, envelope.text.splitlines()[0]) == ("done", "[[say:one]]")


async def test_a_cassette_holds_no_dialog(ostler: Ostler, tmp_path: Path) -> None:
    tape = tmp_path / "tape.cassette"
    tape.write_text('{"ostler_cassette": 1, "agent": "script"}\n')
    environ = {**ostler.setup.environ, "OSTLER_SCENARIO": str(tape), "OSTLER_HOME": str(tmp_path / "other")}
    async with Ostler(load_settings(folder=str(tmp_path), environ=environ).settings, environ) as o:
        live = await o.session("script", folder=str(tmp_path))
        envelope, _ = await turn(o, live, "hello")
        assert envelope.error is not None and "cassette" in envelope.error.message


async def test_a_late_answer_is_refused(ostler: Ostler, tmp_path: Path) -> None:
    live = await ostler.session("script", folder=str(tmp_path))
    envelope, events = await turn(ostler, live, "[[ask:{}]]", "deny")
    asked = next(e for e in events if isinstance(e, Asked))
    with pytest.raises(OstlerError) as refused:
        await ostler.answer(envelope.turn, AskAnswer(ask=asked.id, option="allow"))
    assert refused.value.kind == "not_found"
