"""Hooks of the scripted agent in its own screen: one process, many turns, and each hook of the turn that runs."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from ostler.errors import OstlerError
from ostler.model import Answered, AnyEvent, Envelope, Hook, Notice, ToolEnded
from ostler.work import LiveSession
from ostler.work.dialogs.asks import AskAnswer
from ostler.work.hooks import intake, listener
from waiting import until
from work.scripted import Stable, collect

KEEP = "printenv OSTLER_CALLBACK_URL OSTLER_CALLBACK_TOKEN > $HOME/callback.txt"
ENDED = "ended by "


async def run(session: LiveSession, prompt: str, **options: Any) -> tuple[Envelope, list[AnyEvent]]:
    events = await collect(session, prompt, **{"transport": "pty", **options})
    assert session.last is not None
    return session.last, events


def hooks_in(events: list[AnyEvent]) -> list[str]:
    return [event.name for event in events if isinstance(event, Hook)]


def of(events: list[AnyEvent], code: str) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.code == code]


def silent(stable: Stable, *steps: dict[str, Any], hooks: Any = True) -> None:
    """An agent of which nothing is known but by its hooks and its looks."""
    stable.script.plays(list(steps), tui={"status": False, "titles": False, "transcript": False, "hooks": hooks})


async def posted(home: Path, body: dict[str, Any], token: str | None = None) -> int:
    url, known = (home / "callback.txt").read_text().split()
    async with httpx.AsyncClient(verify=False) as client:  # without TLS no certificates need be loaded
        header = {"Authorization": f"Bearer {known if token is None else token}"}
        return (await client.post(url, content=json.dumps(body).encode(), headers=header)).status_code


async def test_they_are_on_where_nobody_says_otherwise(stable: Stable) -> None:
    stable.script.plays([{"run": "true"}, {"say": "Done."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        first, events = await run(session, "one")
        assert hooks_in(events) == ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]
        second, more = await run(session, "two")
        assert hooks_in(more) == ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]
        assert (first.text, second.text) == ("Done.", "Done.")
        assert len({launch.pid for launch in stable.script.launches}) == 1
        assert {event.turn for event in more if isinstance(event, Hook)} == {second.turn}
        assert {"hook: submitted", "hook: done"} <= set(of(more, "signal"))
        assert second.evidence[-1] == "hooks: UserPromptSubmit, PreToolUse, PostToolUse, Stop"
        # Somebody who does not want them gets another process.
        _, without = await run(session, "three", hooks=False)
        assert hooks_in(without) == [] and len({launch.pid for launch in stable.script.launches}) == 2
        assert list(stable.state.rglob("hook.py")) == []


async def test_a_turn_of_which_hooks_alone_tell(stable: Stable) -> None:
    silent(stable, {"run": "true"}, {"say": "Here\nin two lines."})
    envelope, events = await stable.turn("go", transport="pty", access="full")
    assert (envelope.outcome, envelope.text) == ("done", "Here\nin two lines."), envelope
    assert "text: from a hook" in envelope.evidence
    assert any(each.startswith(f"{ENDED}hook: done") for each in envelope.evidence)
    assert of(events, "receipt")[-1] == "acknowledged by hook: submitted"
    starts = [
        event.payload["session_id"] for event in events if isinstance(event, Hook) and event.name == "SessionStart"
    ]
    assert starts == [envelope.agent_session]


async def test_a_failure_of_which_hooks_alone_tell(stable: Stable) -> None:
    silent(stable, {"run": "true"}, {"fail": {"kind": "overloaded", "message": "API Error: 529"}})
    envelope, _ = await stable.turn("go", transport="pty", access="full")
    assert envelope.error is not None
    assert (envelope.outcome, envelope.error.kind, envelope.error.message) == ("failed", "overloaded", "API Error: 529")


async def test_hooks_that_do_not_come_are_not_missed(stable: Stable) -> None:
    stable.script.plays([{"say": "Here."}], tui={"hooks": False})
    envelope, events = await stable.turn("go", transport="pty")
    assert (envelope.outcome, envelope.text, hooks_in(events)) == ("done", "Here.", [])


async def test_an_interrupt_of_which_no_hook_tells(stable: Stable) -> None:
    stable.script.plays([{"run": "sleep 600"}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        running = asyncio.create_task(run(session, "go"))
        await until(lambda: "PreToolUse" in hooks_in(o.store.events(session.id)))
        await session.cancel()
        envelope, events = await running
        assert envelope.outcome == "cancelled" and "Stop" not in hooks_in(events)
        assert not of(events, "not_interrupted")


async def test_forged_late_and_doubled_ones_end_nothing(stable: Stable) -> None:
    """Whoever has the token may say that it is over: the agent says that it works."""
    stable.script.plays(
        {"match": "^one", "steps": [{"run": KEEP}, {"say": "One."}]},
        [{"run": "true"}, {"wait_for": str(stable.folder / "go")}, {"say": "Two."}],
    )
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        _, events = await run(session, "one")
        stop = next(event.payload for event in events if isinstance(event, Hook) and event.name == "Stop")
        running = asyncio.create_task(run(session, "two"))
        await until(lambda: hooks_in(o.store.events(session.id))[-1:] == ["PostToolUse"])
        forged = {"hook_event_name": "Stop", "last_assistant_message": "Believe me."}
        assert [await posted(stable.home, forged, token) for token in ("-", "x")] == [401, 401]
        assert [await posted(stable.home, told) for told in (stop, stop, forged, forged)] == [204] * 4
        await until(lambda: hooks_in(o.store.events(session.id)).count("Stop") == 3)  # each once
        assert not running.done()
        (stable.folder / "go").touch()
        envelope, events = await running
        assert (envelope.outcome, envelope.text) == ("done", "Two.")
        # Late: the turn is over, and it is kept as its own.
        told = {"hook_event_name": "Notification", "message": "late"}
        assert await posted(stable.home, told) == 204
        last = o.store.events(session.id)[-1]
        assert isinstance(last, Hook) and (last.name, last.late, last.turn) == ("Notification", True, envelope.turn)


async def test_a_flood_is_turned_away_and_the_turn_goes_on(stable: Stable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "BURST", 20)
    monkeypatch.setattr(intake, "RATE", 0.001)
    go = str(stable.folder / "go")
    stable.script.plays([{"run": KEEP}, {"wait_for": go}, {"say": "Here."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        running = asyncio.create_task(run(session, "go"))
        await until(lambda: "PostToolUse" in hooks_in(o.store.events(session.id)))
        said = {await posted(stable.home, {"hook_event_name": "Tick", "n": n}) for n in range(40)}
        assert said == {204, 429}
        Path(go).touch()
        envelope, events = await running
        assert (envelope.outcome, envelope.text) == ("done", "Here.")
        assert "Stop" not in hooks_in(events) and len(of(events, "hooks_flood")) == 1


async def test_its_token_is_kept_nowhere_in_no_turn(stable: Stable) -> None:
    stable.script.plays([{"run": KEEP}, {"run": "env"}, {"say": "Done."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        for prompt in ("one", "two"):
            _, events = await run(session, prompt)
            assert any("OSTLER_CALLBACK_TOKEN" in event.output for event in events if isinstance(event, ToolEnded))
        token = (stable.home / "callback.txt").read_text().split()[1]
        [program] = stable.state.rglob("hook.py")
        assert token in program.read_text()
        await o.close_session(session.id)
        assert not program.exists()
    kept = [path for path in stable.state.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
    assert kept == []


@pytest.mark.parametrize(("option", "made"), [("allow", True), ("deny", False)])
async def test_a_person_decides_about_each_tool_call(stable: Stable, option: str, made: bool) -> None:
    stable.script.plays([{"run": "touch made"}, {"say": "Over."}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        running = asyncio.create_task(run(session, "go", hooks="ask"))
        [ask] = await until(lambda: o.store.open_asks(session.id))
        assert (ask.id, ask.input) == ("hook-1", {"command": "touch made"})
        await o.answer(session.id, AskAnswer(ask=ask.id, option=option, by="Eve"))
        envelope, events = await running
        assert (envelope.text, (stable.folder / "made").exists()) == ("Over.", made)
        assert [event.by for event in events if isinstance(event, Answered)] == ["Eve"]


async def test_a_rule_denies_a_tool_call(stable: Stable) -> None:
    config = stable.home / ".config" / "ostler"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[[asks]]\nanswer = "deny"\ncommand = "touch *"\n')
    stable.script.plays([{"run": "touch made"}, {"say": "Over."}])
    envelope, events = await stable.turn("go", transport="pty", access="full")
    assert envelope.text == "Over." and not (stable.folder / "made").exists()
    assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [("reject_once", "rule 1")]


async def _no_port(*_: Any) -> Any:
    raise OSError(24, "Too many open files")


async def test_without_an_endpoint_it_has_none_unless_somebody_wants_them(
    stable: Stable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener.Listener, "open", _no_port)
    stable.script.plays([{"say": "Here."}])
    envelope, events = await stable.turn("go", transport="pty")
    assert (envelope.text, hooks_in(events)) == ("Here.", [])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        with pytest.raises(OstlerError, match="no callback endpoint"):
            await run(session, "go", hooks=True)
