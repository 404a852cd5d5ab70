"""Hooks of real CLIs in turns of their own: they call ostler back, beside those of the user."""

import asyncio
import json
from pathlib import Path

import pytest

from ostler.agents import AGENTS as AGENTS_BY_NAME
from ostler.agents.codex.hooks import trusted_hash
from ostler.model import Answered, AnyEvent, Hook, ToolEnded
from ostler.testing.answers import FINAL
from ostler.work.dialogs.asks import AskAnswer
from real.yard import Yard
from waiting import until

pytestmark = [pytest.mark.parametrize("agent", ("claude", "codex", "gemini", "qwen")), pytest.mark.timeout(240)]

# What each is known to fire in a turn with one tool call.
FIRED = {
    "claude": {"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"},
    "codex": {"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"},
    "gemini": {"SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd"},
    "qwen": {"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"},
}


def own_hook(yard: Yard) -> Path:
    """A Stop hook of the user's own, in the settings of the CLI, that leaves a file."""
    seen = yard.home / "seen.txt"
    event = {"gemini": "AfterAgent"}.get(yard.agent, "Stop")
    hook = {"type": "command", "command": f"echo seen >> {seen}; exit 0"}
    if yard.agent == "codex":  # which runs none that nobody trusts
        config = yard.home / ".codex" / "config.toml"
        own = trusted_hash("Stop", [{"hooks": [{**hook, "timeout": 10}]}])
        config.write_text(
            f"{config.read_text()}\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = 'command'\ntimeout = 10\n"
            f"command = '{hook['command']}'\n[hooks.state.'{config}:stop:0:0']\ntrusted_hash = '{own}'\n"
        )
        return seen
    place = {"claude": ".claude/settings.json", "gemini": ".gemini/settings.json", "qwen": ".qwen/settings.json"}
    path = yard.home / place[yard.agent]
    path.parent.mkdir(exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, "hooks": {event: [{"hooks": [hook]}]}}))
    return seen


def told(events: list[AnyEvent]) -> list[Hook]:
    """Ostler's own hooks: those of the user are told by the CLI in records of another shape."""
    return [event for event in events if isinstance(event, Hook) and "session_id" in (event.payload or {})]


@pytest.mark.core
async def test_hooks_tell_what_the_agent_does(yard: Yard) -> None:
    seen = own_hook(yard)
    envelope, events = await yard.turn("[[shell:echo from-the-tool > made.txt]]", access="full", hooks=True)
    assert (envelope.status, envelope.text) == ("ok", FINAL), envelope
    fired = {hook.name for hook in told(events) if hook.payload.get("type") != "system"}
    assert FIRED[yard.agent] <= fired, fired
    face = AGENTS_BY_NAME[yard.agent].hooks
    assert face is not None
    starts = [hook for hook in told(events) if hook.name == face.start]
    assert starts[0].payload["session_id"] == envelope.agent_session
    assert any(line.startswith("hooks: ") for line in envelope.evidence)
    assert list((yard.home.parent / "state").rglob("hook.py")) == []
    assert "seen" in seen.read_text()  # the user's own is still in force
    if yard.agent == "claude":  # and seen in the journal
        records = [e.payload for e in events if isinstance(e, Hook) and e.payload.get("type") == "system"]
        assert [record.get("hook_event") for record in records] == ["Stop"]  # and each of ours once
        assert [hook.name for hook in told(events)].count("PreToolUse") == 1


async def test_a_rule_denies_a_tool_call(yard: Yard) -> None:
    config = yard.home / ".config" / "ostler"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[[asks]]\nanswer = "deny"\ncommand = "*made.txt*"\n')
    envelope, events = await yard.turn("[[shell:echo no > made.txt]]", access="full", hooks=True)
    assert not (yard.folder / "made.txt").exists()
    assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [("reject_once", "rule 1")]
    assert all(not e.ok for e in events if isinstance(e, ToolEnded))
    assert envelope.outcome == "done"


async def test_a_person_decides_about_a_tool_call(yard: Yard) -> None:
    async with yard.ostler() as o:
        session = await yard.session(o, access="full")
        prompt = "[[shell:echo from-the-tool > made.txt]]"
        for option in ("deny", "allow"):

            async def turn() -> list[AnyEvent]:
                return [event async for event in session.run(prompt, hooks="ask")]

            running = asyncio.create_task(turn())
            (asked,) = await until(lambda: o.store.open_asks(session.id))
            assert "made.txt" in asked.title
            assert not (yard.folder / "made.txt").exists()
            await o.answer(session.id, AskAnswer(ask=asked.id, option=option, by="Ada"))
            events = await running
            assert [e.by for e in events if isinstance(e, Answered)] == ["Ada"]
            assert session.last and session.last.outcome == "done"
            assert (yard.folder / "made.txt").exists() == (option == "allow")
