"""Turns in the scripted agent's own screen: a real program in a real terminal, under a real Ostler.

In a terminal of ostler's (`pty`), and in a pane of tmux, unless the test is of what is the same in both (`ONLY_PTY`),
of what tmux does not hand on (OSC 7501), or turns the clock, by which tmux does not go.
"""

import asyncio
import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import (
    Answered,
    AnyEvent,
    Asked,
    Envelope,
    Notice,
    Started,
    TerminalClosed,
    TerminalOpened,
    Text,
    ToolEnded,
    ToolStarted,
)
from ostler.process import tree
from ostler.terminal.keys import Key
from ostler.terminal.lease import Author
from ostler.terminal.viewer_protocol import PressKey, Type
from ostler.testing.clock import Clock
from ostler.work import LiveSession, Ostler
from ostler.work.dialogs.asks import AskAnswer
from ostler.work.tuis.delivery import Delivery
from waiting import stop, until
from work.panes.own_tmux import own_tmux
from work.scripted import Stable, collect, turn_until

ASK = {"ask": {"tool": "shell", "input": {"command": "touch made"}, "then": [{"run": "touch made"}, {"say": "Made."}]}}
EVE = Author("Eve", "person", "window-1")
ONLY_PTY = {
    "test_the_evidence_says_what_decided",
    "test_a_rule_answers_a_dialog",
    "test_two_dialogs_alike_are_two_asks",
    "test_other_options_take_another_program",
    "test_a_program_that_leaves_in_the_middle",
    "test_a_person_who_takes_the_keyboard_before_enter_is_waited_for",
    "test_an_error_of_the_model_is_the_turns",
    "test_a_first_run_screen_that_is_refused_ends_the_turn",
    "test_a_first_run_screen_that_ostler_cannot_answer",
    "test_an_agent_whose_screen_is_not_known",
    "test_without_a_transcript_osc_7501_decides_and_the_screen_has_the_text",
    "test_without_osc_7501_the_transcript_decides",
}
carried = SimpleNamespace(by="pty")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    alike = metafunc.function.__name__ in ONLY_PTY or "clock" in metafunc.fixturenames
    metafunc.parametrize("transport", ["pty"] if alike else ["pty", "tmux"], indirect=True)


@pytest.fixture(autouse=True)
def transport(request: pytest.FixtureRequest, stable: Stable, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(carried, "by", request.param)
    if request.param == "pty":
        yield
        return
    with own_tmux(stable.state, monkeypatch):
        yield


async def run(session: LiveSession, prompt: str, **options: Any) -> tuple[Envelope, list[AnyEvent]]:
    events = await collect(session, prompt, transport=carried.by, **options)
    assert session.last is not None
    return session.last, events


def begun(session: LiveSession, prompt: str, **options: Any) -> "asyncio.Task[tuple[Envelope, list[AnyEvent]]]":
    return asyncio.create_task(run(session, prompt, **options))


def of(events: list[AnyEvent], code: str) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.code == code]


def open_asks(o: Ostler) -> list[Asked]:
    return [ask for turn in o.store.running_turns() for ask in o.store.open_asks(turn.session, turn.id)]


def configured(stable: Stable, text: str) -> None:
    (stable.home / ".config" / "ostler").mkdir(parents=True)
    (stable.home / ".config" / "ostler" / "config.toml").write_text(text)


async def screen(o: Ostler, session: str) -> str:
    live = o.terminals.list(session, live=True)
    return "\n".join((await o.terminals.snapshot(live[0].id)).text) if live else ""


# -- delivery -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prompt",
    [
        "say \"it\"; 'now' $HOME `id` \\n 😀 é 漢字\nin three\n\tlines",
        "/exit",
        "\n\n  leading and trailing \n",
        "x" * 100_000 + "\nthe end",
        "one of many lines\n" * 6_000,
    ],
    ids=["characters", "slash", "white space", "100 KB in a line", "100 KB in lines"],
)
async def test_a_prompt_comes_whole(stable: Stable, prompt: str) -> None:
    stable.script.plays([{"say": "Read."}])
    envelope, events = await stable.turn(prompt, transport=carried.by)
    assert (envelope.outcome, envelope.text) == ("done", "Read."), envelope
    [launch] = stable.script.launches
    sent = f" {prompt}" if prompt.startswith("/") else prompt
    assert launch.sha256 == hashlib.sha256(sent.encode()).hexdigest()
    assert [text.partition(" by ")[0] for text in of(events, "receipt")] == [
        *("accepted", "echoed", "submitted", "acknowledged")
    ]


async def test_what_controls_a_terminal_is_left_out(stable: Stable) -> None:
    stable.script.plays([{"echo": "prompt"}])
    envelope, _ = await stable.turn("a\x1b[201~\rb\x07c\x1b[2J", transport=carried.by)
    assert envelope.text == "a[201~\nbc[2J"


async def test_the_evidence_says_what_decided(stable: Stable) -> None:
    stable.script.plays([{"say": "All done."}])
    envelope, events = await stable.turn(transport=carried.by, hooks=False)
    receipt, decided, result = envelope.evidence
    assert receipt.startswith("receipt: accepted, echoed, submitted, acknowledged by ")
    assert decided.startswith("ended by transcript: done and ")
    assert result == "result: ok"
    assert {"OSC 7501: busy", "OSC 7501: done", "transcript: done"} <= set(of(events, "signal"))
    assert all(event.quiet for event in events if isinstance(event, Notice))
    assert [event.text for event in events if isinstance(event, Text)] == ["All done."]


async def test_an_enter_that_does_nothing_is_pressed_again(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}], tui={"swallow_enter": 1})
    envelope, _ = await stable.turn(transport=carried.by)
    assert envelope.text == "Here." and len(stable.script.launches) == 1


@pytest.mark.parametrize(
    ("tui", "message", "receipt"),
    [
        ({"swallow_paste": 1}, "it did not show the prompt within 15 s", "receipt: accepted"),
        ({"swallow_enter": 9}, "it did not pick up the prompt within 15 s", "receipt: accepted, echoed, submitted"),
    ],
)
async def test_a_prompt_that_is_not_taken_up(
    stable: Stable, clock: Clock, tui: dict[str, Any], message: str, receipt: str
) -> None:
    stable.script.plays([{"say": "Never."}], tui=tui)
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = begun(session, "go")
        await until(lambda: any(of(o.store.events(session.id), "receipt")))
        envelope, _ = await turn_until(clock, 1, turn)
        assert envelope.error is not None
        assert (envelope.outcome, envelope.error.kind) == ("failed", "undelivered")
        assert envelope.error.message == f"script did not get the prompt: {message}"
        assert envelope.evidence[0] == receipt and "Scripted agent" in Path(envelope.artifacts["screen"]).read_text()
        assert stable.script.launches == []
        assert o.terminals.list(session.id, live=True) == []  # what stands in its box is not for the next turn


async def test_text_that_somebody_left_in_the_box_is_not_sent_along(stable: Stable, clock: Clock) -> None:
    stable.script.plays([{"say": "First."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await run(session, "one")
        [terminal] = o.terminals.list(session.id, live=True)
        await o.terminals.input(terminal.id, EVE, Type(text="my draft"), take=True)
        await o.terminals.lease(terminal.id, EVE, "release")
        await until(lambda: _shows(o, session.id, "my draft"))
        envelope, _ = await turn_until(clock, 5, begun(session, "two"))
        assert envelope.error is not None and envelope.error.kind == "undelivered"
        assert "text in its input box that ostler did not write" in envelope.error.message
        assert "my draft" in await screen(o, session.id)  # and it is still there
        assert [launch.prompt for launch in stable.script.launches] == ["one"]


async def _shows(o: Ostler, session: str, text: str) -> bool:
    return text in await screen(o, session)


# -- work ----------------------------------------------------------------------------------------------------


async def test_tools_and_usage_come_from_the_transcript(stable: Stable) -> None:
    usage = {"input_tokens": 7, "output_tokens": 3, "cost_usd": 0.5}
    stable.script.plays([{"run": "echo oats"}, {"usage": usage}, {"say": "Fed."}])
    envelope, events = await stable.turn(transport=carried.by, access="full")
    assert [(e.name, e.title) for e in events if isinstance(e, ToolStarted)] == [("shell", "echo oats")]
    assert [(e.ok, e.output) for e in events if isinstance(e, ToolEnded)] == [(True, "oats\n")]
    assert envelope.usage is not None and (envelope.usage.input_tokens, envelope.cost_usd) == (7, 0.5)
    assert (envelope.text, envelope.steps) == ("Fed.", 2)


async def test_an_error_of_the_model_is_the_turns(stable: Stable) -> None:
    stable.script.plays([{"fail": {"kind": "overloaded", "message": "API Error: 529"}}])
    envelope, _ = await stable.turn(transport=carried.by)
    assert envelope.error is not None
    assert (envelope.outcome, envelope.error.kind, envelope.error.message) == ("failed", "overloaded", "API Error: 529")


@pytest.mark.parametrize(
    ("option", "kind", "made"),
    [("allow", "allow_once", True), ("deny", "reject_once", False), ("always", "allow_always", True)],
)
async def test_a_dialog_is_an_ask(stable: Stable, option: str, kind: str, made: bool) -> None:
    stable.script.plays([ASK, {"say": "Over."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        turn = begun(session, "go")
        [ask] = await until(lambda: open_asks(o))
        assert (ask.tool, ask.input) == ("shell", {"command": "touch made"})
        assert ask.reason.startswith("Allow shell?\ntouch made\n")
        assert [each.kind for each in ask.options] == ["allow_once", "allow_always", "reject_once"]
        await o.answer(session.id, AskAnswer(ask=ask.id, option=option, by="Eve"))
        envelope, events = await turn
        assert envelope.text == "Over."
        assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [(kind, "Eve")]
        assert (stable.folder / "made").exists() is made


async def test_a_dialog_that_is_answered_at_the_terminal(stable: Stable) -> None:
    stable.script.plays([ASK, {"say": "Over."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        turn = begun(session, "go")
        await until(lambda: open_asks(o))
        [terminal] = o.terminals.list(session.id, live=True)
        await o.terminals.input(terminal.id, EVE, Type(text="1"), take=True)
        envelope, events = await turn  # though she keeps the keyboard
        assert envelope.text == "Over." and (stable.folder / "made").exists()
        assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [("cancelled", "the terminal")]


async def test_two_dialogs_alike_are_two_asks(stable: Stable) -> None:
    stable.script.plays([ASK, ASK, {"say": "Over."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        turn = begun(session, "go")
        for n in (1, 2):
            [ask] = await until(lambda n=n: [a for a in open_asks(o) if a.id == f"tui-{n}"])  # type: ignore[misc]
            await o.answer(session.id, AskAnswer(ask=ask.id, option="allow"))
        envelope, events = await turn
        assert envelope.text == "Over."
        assert [e.option for e in events if isinstance(e, Answered)] == ["allow_once", "allow_once"]


async def test_a_rule_answers_a_dialog(stable: Stable) -> None:
    stable.script.plays([ASK, {"say": "Over."}])
    configured(stable, '[[asks]]\nanswer = "allow"\ntool = "shell"\ncommand = "touch *"\n')
    envelope, events = await stable.turn(transport=carried.by, access="full")
    assert envelope.text == "Over." and (stable.folder / "made").exists()
    assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [("allow_once", "rule 1")]


async def test_nobody_answers_a_dialog(stable: Stable, clock: Clock) -> None:
    stable.script.plays([ASK, {"say": "Over."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        turn = begun(session, "go")
        await until(lambda: open_asks(o))
        while open_asks(o):  # after that, its program needs real time to go on
            await clock.turn(100)
            await asyncio.sleep(0.05)
        envelope, events = await turn
        assert envelope.text == "Over." and not (stable.folder / "made").exists()
        assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [("reject_once", "time limit")]


# -- first-run screens -----------------------------------------------------------------------------------------


async def test_a_first_run_screen_is_asked_about_and_never_answered_blindly(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}], tui={"dialog": "trust"})
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = begun(session, "go")
        [ask] = await until(lambda: open_asks(o))
        assert (ask.tool, ask.title) == ("startup", f"Do you trust the files in this folder? {stable.folder}")
        assert [(each.name, each.kind) for each in ask.options] == [
            ("No, exit", "reject_once"),
            ("Yes, proceed", "allow_once"),
        ]
        await o.answer(session.id, AskAnswer(ask=ask.id, option="allow"))
        envelope, _ = await turn
        assert envelope.text == "Here."


async def test_a_first_run_screen_that_is_refused_ends_the_turn(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}], tui={"dialog": "trust"})
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = begun(session, "go")
        [ask] = await until(lambda: open_asks(o))
        await o.answer(session.id, AskAnswer(ask=ask.id, option="deny"))
        envelope, _ = await turn
        assert envelope.error is not None and envelope.error.kind == "denied"
        assert "Do you trust the files" in envelope.error.message


async def test_a_first_run_screen_that_ostler_cannot_answer(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}], tui={"dialog": "login"})
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = begun(session, "go")
        [ask] = await until(lambda: open_asks(o))
        assert ask.options == () and "API key" in ask.reason
        with pytest.raises(OstlerError, match="no option 'allow'"):
            await o.answer(session.id, AskAnswer(ask=ask.id, option="allow"))
        [terminal] = o.terminals.list(session.id, live=True)
        await o.terminals.input(terminal.id, EVE, Type(text="2"), take=True)  # a person logs in
        await o.terminals.lease(terminal.id, EVE, "release")
        envelope, _ = await turn
        assert envelope.text == "Here."


# -- the program ------------------------------------------------------------------------------------------------


async def test_the_program_stays_for_the_next_turn_and_ends_with_the_session(stable: Stable) -> None:
    stable.script.plays([{"history": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        first, events = await run(session, "one")
        second, more = await run(session, "two")
        assert (first.text, second.text) == ("nothing", "one"), second
        assert first.agent_session == second.agent_session is not None
        assert len({launch.pid for launch in stable.script.launches}) == 1
        opened = [event.terminal for event in (*events, *more) if isinstance(event, TerminalOpened)]
        [terminal] = o.terminals.list(session.id, live=True)
        assert opened == [terminal.id] * 2 and (terminal.name, terminal.typing) == ("script", True)
        assert first.artifacts["recording"] == terminal.recording
        await o.close_session(session.id)
        assert o.terminals.list(session.id, live=True) == [] and tree.marked(terminal.id) == []


async def test_a_killed_program_is_a_crash_and_the_next_turn_goes_on(stable: Stable) -> None:
    stable.script.plays({"match": "^one", "steps": [{"crash": "KILL"}]}, [{"history": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        crashed, events = await run(session, "one")
        assert crashed.error is not None and (crashed.outcome, crashed.error.kind) == ("crashed", "crashed")
        assert crashed.exit is not None and crashed.exit.signal == 9
        assert [event.terminal for event in events if isinstance(event, TerminalClosed)]
        then, _ = await run(session, "two")
        assert (then.text, then.agent_session) == ("one", crashed.agent_session)
        assert len({launch.pid for launch in stable.script.launches}) == 2


async def test_a_program_that_leaves_in_the_middle(stable: Stable) -> None:
    stable.script.plays([{"say": "Bye."}, {"exit": 3}])
    envelope, _ = await stable.turn(transport=carried.by)
    assert envelope.outcome == "crashed" and envelope.exit is not None and envelope.exit.code == 3
    assert "ended by process: ended" in envelope.evidence


async def test_a_program_that_nobody_uses_is_closed(stable: Stable, clock: Clock) -> None:
    stable.script.plays([{"say": "Here."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await run(session, "one")
        await clock.turn(1700)
        assert len(o.terminals.list(session.id, live=True)) == 1
        await clock.turn(200)
        await until(lambda: o.terminals.list(session.id, live=True) == [])


async def test_one_process_at_a_time_has_the_conversation(stable: Stable) -> None:
    stable.script.plays([{"history": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await run(session, "one")
        await collect(session, "two")
        assert o.terminals.list(session.id, live=True) == []
        await collect(session, "three", transport="dialog")
        envelope, _ = await run(session, "four")
        assert envelope.text == "one\ntwo\nthree"
        assert o.dialogs._live == {}


async def test_other_options_take_another_program(stable: Stable) -> None:
    stable.script.plays([{"echo": "access"}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        first, _ = await run(session, "one")
        second, _ = await run(session, "two", access="full")
        assert (first.text, second.text) == ("read", "full")
        assert len({launch.pid for launch in stable.script.launches}) == 2
        assert len(o.terminals.list(session.id, live=True)) == 1


async def test_an_agent_whose_screen_is_not_known(stable: Stable) -> None:
    async with stable.ostler(OSTLER_ONLY="cursor") as o:
        session = await o.session("cursor", folder=str(stable.folder))
        with pytest.raises(OstlerError) as raised:
            await session.run("go", transport=carried.by)
        assert raised.value.kind == "unsupported" and "the screen of cursor" in raised.value.message


# -- the end ----------------------------------------------------------------------------------------------------


async def test_a_turn_is_interrupted_and_the_program_stays(stable: Stable) -> None:
    stable.script.plays({"match": "^one", "steps": [{"run": "sleep 600"}]}, [{"history": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        turn = begun(session, "one")
        await until(lambda: any(isinstance(e, ToolStarted) for e in o.store.events(session.id)))
        assert await o.cancel(session.id)
        envelope, events = await turn
        assert envelope.outcome == "cancelled"
        assert [e.stopped for e in events if isinstance(e, ToolEnded)] == [True]
        assert not of(events, "not_interrupted")
        then, _ = await run(session, "two")
        assert then.text == "one"
        assert len({launch.pid for launch in stable.script.launches}) == 1


async def test_a_screen_that_is_late_is_not_acted_upon(stable: Stable, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows the prompt in its box, as it was before Enter: nothing has put that back, and it is not cleared."""
    stable.script.plays([{"history": True}])
    late: list[int] = []
    press_enter = Delivery._press_enter

    async def with_a_late_screen(delivery: Delivery, first: bool) -> bool:
        if not late:
            late.extend(o.terminals._context.screens().pids)
            for pid in late:
                stop(pid)
        return await press_enter(delivery, first)

    monkeypatch.setattr(Delivery, "_press_enter", with_a_late_screen)
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        try:
            envelope, _ = await run(session, "one")
            assert envelope.outcome == "done"
            then = begun(session, "two")
            await until(lambda: len([e for e in o.store.events(session.id) if isinstance(e, TerminalOpened)]) == 2)
        finally:
            for pid in late:
                os.kill(pid, signal.SIGCONT)
        envelope, _ = await then
        assert (envelope.outcome, envelope.text) == ("done", "one")


async def test_a_prompt_that_an_interrupt_put_back_is_not_sent_with_the_next_one(stable: Stable) -> None:
    stable.script.plays({"match": "^one", "steps": [{"wait_for": "never"}]}, [{"say": "You said: {prompt}"}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = begun(session, "one and two\nand three")
        await until(lambda: any("acknowledged" in text for text in of(o.store.events(session.id), "receipt")))
        assert await o.cancel(session.id)
        envelope, _ = await turn
        assert envelope.outcome == "cancelled"
        then, _ = await run(session, "four")
        assert then.text == "You said: four"
        assert len({launch.pid for launch in stable.script.launches}) == 1


async def test_a_turn_that_asks_is_interrupted(stable: Stable) -> None:
    stable.script.plays({"match": "^one", "steps": [ASK]}, [{"say": "Next."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        turn = begun(session, "one")
        await until(lambda: open_asks(o))
        await o.cancel(session.id)
        envelope, events = await turn
        assert envelope.outcome == "cancelled" and not (stable.folder / "made").exists()
        assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [("cancelled", "cancelled")]
        then, _ = await run(session, "two")
        assert then.text == "Next." and len({launch.pid for launch in stable.script.launches}) == 1


async def test_a_program_that_does_not_stop_is_ended(stable: Stable, clock: Clock) -> None:
    stable.script.plays([{"ignore": ["USR1"]}, {"never_end": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = begun(session, "go")
        await until(lambda: any(isinstance(e, Started) for e in o.store.events(session.id)))
        await o.cancel(session.id)
        envelope, events = await turn_until(clock, 1, turn)
        assert envelope.outcome == "cancelled" and of(events, "not_interrupted")
        assert o.terminals.list(session.id, live=True) == []


async def test_who_presses_escape_at_the_terminal_interrupts_the_turn(stable: Stable) -> None:
    stable.script.plays([{"run": "sleep 600"}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        turn = begun(session, "go")
        await until(lambda: any(isinstance(e, ToolStarted) for e in o.store.events(session.id)))
        [terminal] = o.terminals.list(session.id, live=True)
        await o.terminals.input(terminal.id, EVE, PressKey(key=Key(name="Escape")), take=True)
        envelope, _ = await turn
        assert envelope.outcome == "cancelled" and envelope.error is not None
        assert envelope.error.message == "script was interrupted at its terminal"
        by = ("ended by transcript: interrupted", "ended by screen: interrupted")  # whichever is looked at first
        assert any(each.startswith(by) for each in envelope.evidence)


async def test_a_turn_that_takes_too_long(stable: Stable, clock: Clock) -> None:
    stable.script.plays([{"run": "sleep 600"}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        from ostler.model import Limits

        turn = begun(session, "go", limits=Limits(total=100))
        await until(lambda: any(isinstance(e, ToolStarted) for e in o.store.events(session.id)))
        await clock.turn(101)
        envelope, _ = await turn
        assert envelope.outcome == "timed_out"


async def test_without_osc_7501_the_transcript_decides(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}], tui={"status": False, "titles": False})
    envelope, events = await stable.turn(transport=carried.by, hooks=False)
    assert (envelope.outcome, envelope.text) == ("done", "Here.")
    assert not [text for text in of(events, "signal") if "OSC" in text]
    assert "ended by transcript: done and screen: ready" in envelope.evidence


async def test_without_a_transcript_osc_7501_decides_and_the_screen_has_the_text(stable: Stable) -> None:
    stable.script.plays([{"say": "Here\nin two lines."}], tui={"transcript": False, "hooks": False})
    envelope, _ = await stable.turn(transport=carried.by)
    assert envelope.outcome == "done", envelope
    assert envelope.text == "● Here\nin two lines."
    assert {"text: from the screen", "ended by OSC 7501: done"} <= set(envelope.evidence)


async def test_with_neither_a_turn_is_unproven_unless_a_pattern_proves_it(stable: Stable, clock: Clock) -> None:
    silent = {"status": False, "titles": False, "transcript": False, "hooks": False}
    stable.script.plays([{"run": "true"}, {"wait_for": str(stable.folder / "go")}, {"say": "ALL DONE"}], tui=silent)
    configured(stable, '[profiles.sure]\nagent = "script"\ndone_pattern = "ALL DONE"\n')
    for who, outcome in (("script", "unproven"), ("sure", "done")):
        (stable.folder / "go").unlink(missing_ok=True)
        async with stable.ostler() as o:
            session = await o.session(who, folder=str(stable.folder), access="full")
            turn = begun(session, "please")
            await until(lambda s=session: "screen: busy" in of(o.events(s.id), "signal"))  # type: ignore[misc]
            (stable.folder / "go").touch()
            envelope, _ = await turn_until(clock, 1, turn)
            assert envelope.outcome == outcome, envelope


# -- the keyboard ----------------------------------------------------------------------------------------------


async def test_automation_waits_for_a_person_at_the_keyboard_and_gives_it_back(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await run(session, "one")
        [terminal] = o.terminals.list(session.id, live=True)
        live = o.terminals._programs.get(terminal.id).live  # type: ignore[union-attr]
        assert live.lease.holder is None
        await o.terminals.lease(terminal.id, EVE, "take")
        turn = begun(session, "two", wait=True)
        await until(lambda: live.lease.waiting is not None)
        assert live.lease.holder == EVE and len(stable.script.launches) == 1
        await o.terminals.lease(terminal.id, EVE, "release")
        envelope, _ = await turn
        assert envelope.text == "Here." and live.lease.holder is None


async def test_an_idle_person_loses_the_keyboard_to_automation_that_waits(stable: Stable, clock: Clock) -> None:
    stable.script.plays([{"say": "Here."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await run(session, "one")
        [terminal] = o.terminals.list(session.id, live=True)
        live = o.terminals._programs.get(terminal.id).live  # type: ignore[union-attr]
        await o.terminals.lease(terminal.id, EVE, "take")
        turn = begun(session, "two", wait=True)
        await until(lambda: live.lease.waiting is not None)
        await clock.turn(61)
        envelope, _ = await turn
        assert envelope.text == "Here."


async def test_a_person_who_takes_the_keyboard_before_enter_is_waited_for(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}], tui={"swallow_enter": 1})
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = begun(session, "go")
        await until(lambda: "submitted" in of(o.store.events(session.id), "receipt"))
        [terminal] = o.terminals.list(session.id, live=True)
        live = o.terminals._programs.get(terminal.id).live  # type: ignore[union-attr]
        await o.terminals.lease(terminal.id, EVE, "take")  # the first Enter did nothing
        await until(lambda: live.lease.waiting is not None or turn.done())
        await o.terminals.lease(terminal.id, EVE, "release")
        envelope, _ = await turn
        assert envelope.text == "Here." and len(stable.script.launches) == 1


async def test_a_person_who_sends_a_prompt_by_hand_is_waited_for(stable: Stable) -> None:
    stable.script.plays(
        {"match": "^by hand", "steps": [{"wait_for": str(stable.folder / "go")}, {"say": "Mine."}]}, [{"history": True}]
    )
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await run(session, "one")
        [terminal] = o.terminals.list(session.id, live=True)
        await o.terminals.input(terminal.id, EVE, Type(text="by hand"), take=True)
        await until(lambda: _shows(o, session.id, "❯ by hand"))
        await o.terminals.input(terminal.id, EVE, PressKey(key=Key(name="Enter")))
        await until(lambda: _shows(o, session.id, "Working…"))
        await o.terminals.lease(terminal.id, EVE, "release")
        turn = begun(session, "two")
        await until(o.store.running_turns)
        (stable.folder / "go").touch()
        envelope, _ = await turn
        assert envelope.text == "one\nby hand"
