"""Hooks of real turns of the scripted agent: each is a process that calls ostler back over HTTP."""

import asyncio
import json
import os
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from ostler.agents.hooks import BODY_LIMIT
from ostler.errors import OstlerError
from ostler.model import Answered, AnyEvent, Asked, Ended, Hook, Limits, Notice, ToolEnded
from ostler.process import tree
from ostler.testing.clock import Clock
from ostler.work import LiveSession, Ostler
from ostler.work.dialogs.asks import AskAnswer
from ostler.work.hooks import intake
from ostler.work.hooks.callbacks import LATE
from waiting import until
from work.full_disk import full_for_a_moment
from work.scripted import Stable, collect

KEEP = "[[run:printenv OSTLER_CALLBACK_URL OSTLER_CALLBACK_TOKEN OSTLER_SESSION OSTLER_TURN > callback.txt]]"


def hooks_in(events: list[AnyEvent]) -> list[str]:
    return [event.name for event in events if isinstance(event, Hook)]


async def test_every_hook_is_journaled_and_is_evidence(stable: Stable) -> None:
    envelope, events = await stable.turn("[[run:echo hay]] [[say:done]]", hooks=True)
    assert hooks_in(events) == ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"]
    assert envelope.ok
    assert "hooks: SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, Stop, SessionEnd" in envelope.evidence
    first = next(event for event in events if isinstance(event, Hook))
    assert first.quiet and not first.late and first.payload["session_id"] == envelope.agent_session
    assert isinstance(events[-1], Ended)


async def test_without_being_asked_for_there_are_none(stable: Stable) -> None:
    _, events = await stable.turn("[[run:env]] [[say:done]]")
    assert hooks_in(events) == []
    assert "OSTLER_CALLBACK" not in next(event.output for event in events if isinstance(event, ToolEnded))


async def test_a_dialog_has_none(stable: Stable) -> None:
    envelope, events = await stable.turn("[[run:env]] [[say:done]]", hooks=True, transport="dialog", access="full")
    assert (envelope.ok, envelope.text, hooks_in(events)) == (True, "done", [])
    assert not any("OSTLER_CALLBACK" in event.output for event in events if isinstance(event, ToolEnded))


async def test_the_setting_is_enough(stable: Stable) -> None:
    (stable.home / ".config" / "ostler").mkdir(parents=True)
    (stable.home / ".config" / "ostler" / "config.toml").write_text("hooks = true\n")
    _, events = await stable.turn("[[say:done]]")
    assert hooks_in(events) == ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]
    _, events = await stable.turn("[[say:done]]", hooks=False)
    assert hooks_in(events) == []


async def test_nothing_is_left_of_a_turn_and_its_token_is_kept_nowhere(stable: Stable) -> None:
    envelope, _ = await stable.turn(f"{KEEP} [[say:done]]", hooks=True)
    url, token, session, turn = (stable.folder / "callback.txt").read_text().split()
    assert (session, turn) == (envelope.session, envelope.turn)
    kept = [path for path in stable.state.rglob("*") if path.is_file()]
    assert [path for path in kept if token.encode() in path.read_bytes()] == []
    assert not {"hook.py", "hooks.json"} & {path.name for path in kept}
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", int(url.split(":")[2].split("/")[0]))):
        pass
    assert not any(token in arg for arg in envelope.artifacts.values())


@pytest.mark.parametrize("prompt", ["[[fail:crashed]]", "[[crash:KILL]]"])
async def test_nothing_is_left_of_a_turn_that_failed(prompt: str, stable: Stable) -> None:
    envelope, events = await stable.turn(prompt, hooks=True)
    assert not envelope.ok and "Stop" not in hooks_in(events)
    assert list(stable.state.rglob("hook.py")) == [] and list((stable.state / "leftovers").glob("*.json")) == []


async def test_nothing_is_left_of_a_turn_that_was_cancelled(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        running = asyncio.create_task(collect(session, "[[never_end:true]]", hooks=True))
        await until(lambda: o.store.session(session.id) and hooks_in(o.events(session.id))[-1:] == ["UserPromptSubmit"])
        assert list(stable.state.rglob("hook.py")) != []
        await session.cancel()
        assert isinstance((await running)[-1], Ended)
        assert session.last and session.last.outcome == "cancelled"
        assert list(stable.state.rglob("hook.py")) == []


async def test_what_a_kill_left_is_found(stable: Stable) -> None:
    """ostler and its warden are killed: the private files, with the token, go at the next start."""
    process = stable.cli("run", "script", "--hooks", "on", f"{KEEP} [[never_end:true]]")
    await until(lambda: (stable.folder / "callback.txt").exists() and (stable.folder / "callback.txt").read_text())
    turn = (stable.folder / "callback.txt").read_text().split()[3]
    (left,) = stable.state.rglob("hook.py")
    wardens = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    for pid in (process.pid, *wardens):
        os.kill(pid, 9)
    process.communicate()
    async with stable.ostler() as o:
        assert not left.exists()
        assert o.find_turn(turn).envelope is not None
        assert tree.marked(turn) == []


# -- what is sent to it -------------------------------------------------------------------------------


class Called:
    """A turn that runs, and whoever has its token."""

    def __init__(self, ostler: Ostler, session: LiveSession, folder: Path) -> None:
        self.ostler, self.session, self.folder = ostler, session, folder
        self.url, self.token, _, self.turn = (folder / "callback.txt").read_text().split()
        self.client = httpx.AsyncClient(verify=False)  # without TLS no certificates need be loaded

    async def post(self, body: Any, token: str | None = None, **headers: str) -> int:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        known = {"Authorization": f"Bearer {self.token if token is None else token}", **headers}
        return (await self.client.post(self.url, content=sent, headers=known)).status_code

    async def answer_to(self, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        reply = await self.client.post(self.url, json=body, headers=headers, timeout=60)
        return reply.json() if reply.status_code == 200 else {}

    def events(self) -> list[AnyEvent]:
        return self.ostler.events(self.session.id)

    def hooks(self, name: str) -> list[Hook]:
        return [event for event in self.events() if isinstance(event, Hook) and event.name == name]


async def begun(o: Ostler, stable: Stable, **options: Any) -> "tuple[Called, asyncio.Task[list[AnyEvent]]]":
    session = await o.session("script", folder=str(stable.folder))
    prompt = f"{KEEP} [[wait_for:go]] [[say:done]]"
    running = asyncio.create_task(collect(session, prompt, **{"hooks": True, **options}))
    await until(lambda: o.store.session(session.id) and any(isinstance(e, ToolEnded) for e in o.events(session.id)))
    return Called(o, session, stable.folder), running


async def test_forged_doubled_and_broken_hooks(stable: Stable) -> None:
    async with stable.ostler() as o:
        called, running = await begun(o, stable)
        told = {"hook_event_name": "Notification", "message": "hay?"}
        before = len(called.events())
        assert [await called.post(told, token=token) for token in ("-", "x", called.token[:-1])] == [401] * 3
        assert await called.post(told, Origin="https://evil.example") == 400
        assert (await called.client.get(called.url)).status_code == 400
        assert [await called.post(body) for body in (b"", b"[1]", b'{"a":', b'{"x": 1}')] == [400] * 4
        assert await called.post(b" " * (BODY_LIMIT + 1)) == 413
        assert len(called.events()) == before
        assert [await called.post(told) for _ in range(3)] == [204] * 3
        (hook,) = called.hooks("Notification")
        assert hook.payload == told
        assert await called.post({**told, "message": "x" * 10_000}) == 204
        assert len(called.hooks("Notification")[1].payload["message"]) < 5000
        (stable.folder / "go").touch()
        assert hooks_in(await running)[-2:] == ["Stop", "SessionEnd"]
        assert called.session.last and called.session.last.ok


async def test_a_flood_is_turned_away_from_this_turn_alone(
    stable: Stable, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "RATE", 0.001)
    async with stable.ostler() as o:
        called, running = await begun(o, stable, limits=Limits(idle=None, first_record=None))
        said = [await called.post({"hook_event_name": "Tick", "n": n}) for n in range(intake.BURST + 20)]
        assert set(said) == {204, 429}
        kept = said.count(204)
        assert len(called.hooks("Tick")) == kept <= intake.BURST
        assert [e.code for e in called.events() if isinstance(e, Notice)].count("hooks_flood") == 1
        other = await o.session("script", folder=str(stable.folder))
        assert "Stop" in hooks_in(await collect(other, "[[say:hi]]", hooks=True))
        await clock.turn(2000)
        assert await called.post({"hook_event_name": "Tick", "n": "later"}) == 204
        (stable.folder / "go").touch()
        await running
        assert called.session.last and called.session.last.ok


async def test_a_late_hook_is_kept_and_changes_nothing(stable: Stable, clock: Clock) -> None:
    async with stable.ostler() as o:
        called, running = await begun(o, stable)
        (stable.folder / "go").touch()
        events = await running
        row = o.find_turn(called.turn)
        start = {"hook_event_name": "SessionStart", "session_id": "another", "source": "clear"}
        assert await called.post(start) == 204
        (late,) = called.events()[len(events) :]
        assert isinstance(late, Hook) and (late.late, late.turn, late.seq) == (True, called.turn, len(events) + 1)
        assert o.find_turn(called.turn) == row
        assert o.find(called.session.id).agent_session == row.envelope.agent_session  # type: ignore[union-attr]
        # While the next turn runs, its journal keeps it.
        (stable.folder / "go").unlink()
        (stable.folder / "callback.txt").unlink()
        again = asyncio.create_task(collect(called.session, f"{KEEP} [[wait_for:go]] [[say:done]]", hooks=True))
        await until((stable.folder / "callback.txt").exists)
        assert await called.post({"hook_event_name": "Notification", "message": "late"}) == 204
        (hook,) = called.hooks("Notification")
        assert hook.late and hook.of == called.turn != hook.turn
        (stable.folder / "go").touch()
        await again
        assert [event.seq for event in called.events()] == list(range(1, len(called.events()) + 1))
        await clock.turn(LATE + 1)
        assert await called.post({"hook_event_name": "Notification", "message": "much later"}) == 401


async def test_the_session_id_of_the_start_hook_is_kept_at_once(stable: Stable) -> None:
    async with stable.ostler() as o:
        called, running = await begun(o, stable)
        known = o.find(called.session.id).agent_session
        assert known and called.hooks("SessionStart")[0].payload["session_id"] == known
        cleared = {"hook_event_name": "SessionStart", "session_id": "after-clear", "source": "clear"}
        assert await called.post(cleared) == 204
        assert o.find(called.session.id).agent_session == "after-clear"
        (stable.folder / "go").touch()
        await running


async def test_a_process_that_serves_another_turn_by_now_is_routed_to_it(stable: Stable) -> None:
    """A visible agent keeps the token that it was started with."""
    async with stable.ostler() as o:
        called, running = await begun(o, stable)
        (own,) = [token for token, heard in o.callbacks._turns.items() if heard.turn.id == called.turn]
        o.callbacks.route("the-token-of-a-process", own, called.session.id)
        assert await called.post({"hook_event_name": "Notification"}, token="the-token-of-a-process") == 204
        assert [hook.turn for hook in called.hooks("Notification")] == [called.turn]
        o.callbacks.unroute("the-token-of-a-process")
        assert await called.post({"hook_event_name": "Stop"}, token="the-token-of-a-process") == 401
        (stable.folder / "go").touch()
        await running


# -- before a tool call -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [True, "ask"])
async def test_a_rule_denies_a_tool_call(mode: Any, stable: Stable) -> None:
    (stable.home / ".config" / "ostler").mkdir(parents=True)
    rule = '[[asks]]\nanswer = "deny"\ncommand = "rm *"\n[[asks]]\nanswer = "allow"\ncommand = "echo *"\n'
    (stable.home / ".config" / "ostler" / "config.toml").write_text(rule)
    (stable.folder / "hay").touch()
    prompt = "[[run:rm hay]] [[run:echo straw]] [[say:done]]"
    _, events = await stable.turn(prompt, hooks=mode, access="full")
    ended = [event for event in events if isinstance(event, ToolEnded)]
    assert [(event.ok, event.denied) for event in ended] == [(False, True), (True, False)]
    assert (stable.folder / "hay").exists()
    answered = [(event.option, event.by) for event in events if isinstance(event, Answered)]
    assert answered == [("reject_once", "rule 1"), *([("allow_once", "rule 2")] if mode == "ask" else [])]


@pytest.mark.parametrize("option", ["allow", "deny"])
async def test_a_person_decides_about_a_tool_call(option: str, stable: Stable) -> None:
    async with stable.ostler() as o, stable.ostler() as elsewhere:
        session = await o.session("script", folder=str(stable.folder), access="full")
        running = asyncio.create_task(collect(session, "[[run:touch made]] [[say:done]]", hooks="ask"))
        (asked,) = await until(lambda: o.store.open_asks(session.id))
        assert (asked.tool, asked.input, asked.category) == ("shell", {"command": "touch made"}, "shell")
        await until(lambda: o.find(session.id).state == "asking")
        assert not (stable.folder / "made").exists()
        await elsewhere.answer(session.id, AskAnswer(ask="", option=option, by="Ada", message="not now"))
        events = await running
        assert (stable.folder / "made").exists() == (option == "allow")
        (answered,) = [event for event in events if isinstance(event, Answered)]
        assert (answered.by, answered.message) == ("Ada", "" if option == "allow" else "not now")
        assert session.last and session.last.ok


@pytest.mark.parametrize("mode", [True, "ask"])
async def test_a_call_that_is_too_large_to_be_told_of_is_denied(mode: Any, stable: Stable) -> None:
    stable.script.plays([{"write": {"path": "large", "content": "x" * BODY_LIMIT}}, {"say": "done"}])
    _, events = await stable.turn("go", hooks=mode, access="write")
    (ended,) = [event for event in events if isinstance(event, ToolEnded)]
    assert (ended.ok, ended.denied, (stable.folder / "large").exists()) == (False, True, False)


async def test_a_call_that_is_told_again_gets_the_same_answer(stable: Stable) -> None:
    """Its hook was sent twice: one ask, and nobody gets by it."""
    told = {"hook_event_name": "PreToolUse", "tool_name": "shell", "tool_input": {"command": "rm hay"}}
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        prompt = f"{KEEP} [[run:echo straw]] [[say:done]]"
        running = asyncio.create_task(collect(session, prompt, hooks="ask"))
        await o.answer(
            session.id, AskAnswer(ask=(await until(lambda: o.store.open_asks(session.id)))[0].id, option="allow")
        )
        await until(lambda: o.store.open_asks(session.id) and o.store.open_asks(session.id)[0].id == "hook-2")
        called = Called(o, session, stable.folder)
        sent = [asyncio.create_task(called.answer_to(told)) for _ in range(2)]
        (_, asked) = await until(lambda: len(found := o.store.open_asks(session.id)) == 2 and found)
        await o.answer(session.id, AskAnswer(ask=asked.id, option="deny", message="not that"))
        said = [*await asyncio.gather(*sent), await called.answer_to(told)]
        assert [each["hookSpecificOutput"]["permissionDecisionReason"] for each in said] == ["not that"] * 3
        await o.answer(session.id, AskAnswer(ask="", option="allow"))
        events = await running
        assert [event.id for event in events if isinstance(event, Asked)] == ["hook-1", "hook-2", "hook-3"]
        assert session.last and session.last.ok


async def test_what_nobody_answers_is_denied_in_time_and_a_cancel_ends_it(stable: Stable, clock: Clock) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        running = asyncio.create_task(collect(session, "[[run:touch made]] [[say:done]]", hooks="ask"))
        await until(lambda: o.store.open_asks(session.id))
        await clock.turn(301)
        events = await running
        assert [e.by for e in events if isinstance(e, Answered)] == ["time limit"]
        running = asyncio.create_task(collect(session, "[[run:touch made]]", hooks="ask"))
        await until(lambda: o.store.open_asks(session.id))
        await session.cancel()
        await running
        assert session.last and session.last.outcome == "cancelled"
        assert o.store.open_asks(session.id) == [] and not (stable.folder / "made").exists()


async def test_an_answer_that_cannot_be_kept_denies_the_call(stable: Stable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full for a moment. The hook was never answered, and nobody could answer it again."""
    full_for_a_moment(monkeypatch, Answered)
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="write")
        running = asyncio.create_task(collect(session, "[[run:touch made]] [[say:done]]", hooks="ask"))
        await until(lambda: o.store.session(session.id) and o.store.open_asks(session.id))
        with pytest.raises(OstlerError, match="full"):
            await o.answer(session.id, AskAnswer(ask="", option="allow"))
        await running
        assert session.last and session.last.ok and not (stable.folder / "made").exists()


async def test_an_agent_without_hooks_cannot_ask_and_says_so_otherwise(stable: Stable) -> None:
    (stable.home / ".config" / "ostler").mkdir(parents=True)
    (stable.home / ".config" / "ostler" / "config.toml").write_text('[agents.echo]\ncommand = ["cat"]\n')
    async with stable.ostler(OSTLER_ONLY="") as o:
        session = await o.session("echo", folder=str(stable.folder), access="full")
        with pytest.raises(OstlerError) as caught:
            await collect(session, "hay", hooks="ask")
        assert (caught.value.kind, caught.value.message) == ("unsupported", "echo has no hooks that can ask")
        events = await collect(session, "hay", hooks=True)
        assert session.last and session.last.ok
        assert any("no hooks" in event.text for event in events if isinstance(event, Notice))


# -- the endpoint -------------------------------------------------------------------------------------


async def test_without_an_endpoint_nothing_is_launched(stable: Stable, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*args: Any, **keywords: Any) -> None:
        raise OSError(99, "Cannot assign requested address")

    monkeypatch.setattr(asyncio, "start_server", refused)
    with pytest.raises(OstlerError) as caught:
        await stable.turn("[[write:made]]", hooks=True, access="write")
    assert caught.value.kind == "unsupported" and "127.0.0.1" in caught.value.message
    assert not (stable.folder / "made").exists()
    async with stable.ostler() as o:
        assert o.sessions() == []


async def test_the_agent_goes_on_when_nobody_answers_its_hooks(stable: Stable) -> None:
    """The endpoint is gone: hooks say nothing, and the turn ends as it should."""
    async with stable.ostler() as o:
        called, running = await begun(o, stable)
        await until(lambda: called.hooks("PreToolUse") and called.hooks("PostToolUse"))
        await o.callbacks.close()
        (stable.folder / "go").touch()
        events = await running
        assert "Stop" not in hooks_in(events)
        assert called.session.last and called.session.last.ok
        assert "hooks: SessionStart, UserPromptSubmit, PreToolUse, PostToolUse" in called.session.last.evidence
