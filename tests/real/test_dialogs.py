"""What every agent that holds dialogs must do, each by its real CLI against the scripted model."""

import asyncio
import os
import signal

import pytest

from ostler.errors import OstlerError
from ostler.model import Answered, Asked, Ended, Text, ToolEnded
from ostler.process import tree
from ostler.testing.answers import FINAL
from ostler.work.dialogs.asks import AskAnswer
from real.yard import Yard
from waiting import until

ACP = ("claude-agent-acp", "codex-acp", "qwen-acp")  # by command lines of the settings
DIALOGS = ("claude", "codex", "gemini", "qwen", "opencode", "copilot", *ACP)
pytestmark = [pytest.mark.parametrize("agent", DIALOGS), pytest.mark.timeout(240)]


async def turn(live, prompt, **options):
    events = [event async for event in live.run(prompt, transport="dialog", **options)]
    assert [type(e) for e in events].count(Ended) == 1
    return live.last, events


async def asked_turn(o, live, prompt, option, **options):
    """Runs a turn and answers its first ask."""
    events = []
    async for event in live.run(prompt, transport="dialog", **options):
        events.append(event)
        if isinstance(event, Asked):
            await o.answer(live.id, AskAnswer(ask=event.id, option=option, by="a person"))
    return live.last, events


@pytest.mark.core
async def test_three_turns_in_one_process(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        pids = set()
        for number in range(3):
            envelope, events = await turn(live, f"turn number {number}")
            assert (envelope.status, envelope.outcome, envelope.error) == ("ok", "done", None)
            assert [e.text for e in events if isinstance(e, Text)][-1] == FINAL
            pids.add(o.dialogs._live[live.id].dialog.process.pid)
        assert len(pids) == 1
        assert any("turn number 0" in x.text and "turn number 2" in x.text for x in yard.model.asked)
    assert not any(map(tree.identity, pids))


@pytest.mark.core
async def test_an_ask_allowed_and_one_denied(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        envelope, events = await asked_turn(o, live, yard.asking("echo yes > allowed.txt"), "allow")
        assert envelope.ok, envelope
        assert (yard.folder / "allowed.txt").read_text() == "yes\n"
        assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [("allow_once", "a person")]
        envelope, events = await asked_turn(o, live, yard.asking("echo no > denied.txt"), "deny")
        assert not (yard.folder / "denied.txt").exists()
        assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [("reject_once", "a person")]
        assert not [e for e in events if isinstance(e, ToolEnded)][-1].ok
        assert o.store.session(live.id).state == "idle"


async def test_interrupt_then_another_turn(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        mark = f"tail -s 98{os.getpid()} -f /dev/null"  # qwen refuses to sleep
        running = asyncio.create_task(asked_turn(o, live, f"[[shell:{mark}]]", "allow"))
        await until(lambda: tree_has(mark))
        pid = o.dialogs._live[live.id].dialog.process.pid
        await o.cancel(live.id)
        envelope, _ = await running
        assert (envelope.outcome, envelope.error.kind) == ("cancelled", "cancelled")
        await until(lambda: not tree_has(mark))
        envelope, _ = await turn(live, "go on")
        assert envelope.ok, envelope
        assert o.dialogs._live[live.id].dialog.process.pid == pid


async def test_interrupt_while_it_asks(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        late = None
        async for event in live.run(yard.asking("touch never.txt"), transport="dialog"):
            if isinstance(event, Asked):
                late = event.id
                assert o.store.session(live.id).state == "asking"
                await o.cancel(live.id)
        assert live.last.outcome == "cancelled"
        with pytest.raises(OstlerError) as refused:
            await o.answer(live.last.turn, AskAnswer(ask=late, option="allow"))
        assert refused.value.kind == "not_found"
        assert not (yard.folder / "never.txt").exists()
        envelope, _ = await turn(live, "go on")
        assert envelope.ok, envelope


async def test_killed_in_a_turn_then_resumed(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        envelope, _ = await turn(live, "remember the word palomino")
        assert envelope.ok
        mark = f"tail -s 97{os.getpid()} -f /dev/null"
        running = asyncio.create_task(asked_turn(o, live, f"[[shell:{mark}]]", "allow"))
        await until(lambda: tree_has(mark))
        os.kill(o.dialogs._live[live.id].dialog.process.pid, signal.SIGKILL)
        envelope, _ = await running
        assert (envelope.outcome, envelope.error.kind) == ("crashed", "crashed")
        await until(lambda: not tree_has(mark))
        yard.model.requests.clear()
        envelope, _ = await turn(live, "which word was it?")
        assert envelope.ok, envelope
        assert any("palomino" in x.text and "which word was it?" in x.text for x in yard.model.asked)


@pytest.mark.parametrize(("status", "kind"), [(401, "unauthenticated"), (429, "limited"), (500, "overloaded")])
async def test_an_error_of_the_model_server_is_told_and_no_success(yard: Yard, status: int, kind: str) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, events = await turn(live, f"[[error:{yard.server_error if status == 500 else status}]]")
        assert (envelope.status, envelope.error and envelope.error.kind) == ("error", kind), envelope
        if yard.agent == "codex-acp":  # some others say it as well, and tell it as an error all the same
            assert not [event for event in events if isinstance(event, Text)]


def tree_has(command: str) -> bool:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read().replace(b"\0", b" ").strip() == command.encode():
                    return True
        except OSError:
            continue
    return False


async def test_a_daemon_is_named_and_ended_with_its_turn(yard: Yard, agent: str) -> None:
    """A command left in the background, in a session of its own: nothing of it outlives the turn, the dialog does."""
    mark = f"tail -s 97{os.getpid()} -f /dev/null"
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        command = f"nohup setsid {mark} >/dev/null 2>&1 </dev/null & sleep 0.5; echo left"
        first, _ = await asked_turn(o, live, f"[[shell:{command}]]", "allow")
        assert first.ok, first
        process = o.dialogs._live[live.id].dialog.process
        assert not tree_has(mark)
        named = [each.split(" ", 1)[1] for each in first.leaked]
        assert named == [mark] or (named, agent) == ([], "codex-acp")  # which ends it by itself
        second, _ = await turn(live, "go on")
        assert (second.ok, second.leaked) == (True, ()), second
        assert o.dialogs._live[live.id].dialog.process is process and process.exit is None
