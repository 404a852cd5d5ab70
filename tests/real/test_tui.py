"""Real CLIs in their own screens (`transport="pty"`), against the scripted model."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from ostler.agents import AGENTS as KNOWN
from ostler.agents.tui import TuiScreen
from ostler.errors import OstlerError
from ostler.model import Answered, AnyEvent, Asked, Envelope, Hook, Notice, ToolEnded, ToolStarted, TransportName
from ostler.work import LiveSession, Ostler
from ostler.work.dialogs.asks import AskAnswer
from ostler.work.transports.spares import SpareKind
from ostler.work.tuis.delivery import QUIET, STEADY
from real.yard import Yard, each
from waiting import until

HOOKED = ["claude", "codex", "gemini", "qwen"]  # those that call ostler back
AGENTS = [*HOOKED, "copilot"]
pytestmark = [pytest.mark.timeout(240)]
every_agent = pytest.mark.parametrize("agent", AGENTS)
every_agent_some_in_ci = each(AGENTS, core=("claude", "codex"))  # gemini is in that of tmux
hooked_agents = pytest.mark.parametrize("agent", HOOKED)


def settle_claude(yard: Yard) -> None:
    """What every user of claude has behind them: the first run, and a yes to the key of the environment."""
    key = yard.env["ANTHROPIC_API_KEY"][-20:]
    known = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": [key]}}
    path = yard.home / ".claude.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**before, **known}))


def settle_codex(yard: Yard) -> None:
    """It asks when its model wants to leave the sandbox."""
    wanted = {"sandbox_permissions": "require_escalated", "justification": "needed"}
    yard.quirks = {**yard.quirks, "asks_with": ("exec_command", wanted)}


SETTLED: dict[str, Callable[[Yard], None]] = {
    "claude": settle_claude,
    "codex": settle_codex,
    "gemini": lambda yard: None,
    "qwen": lambda yard: None,
    "copilot": lambda yard: None,
}


@pytest.fixture
def visible(agent: str, yard: Yard) -> Yard:
    SETTLED[agent](yard)
    return yard


async def run(
    live: LiveSession, prompt: str, transport: TransportName = "pty", **options: Any
) -> tuple[Envelope, list[AnyEvent]]:
    events = [event async for event in live.run(prompt, transport=transport, **options)]
    assert live.last is not None
    return live.last, events


def of(events: list[AnyEvent], code: str) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.code == code]


def open_asks(o: Ostler) -> list[Asked]:
    return [ask for turn in o.store.running_turns() for ask in o.store.open_asks(turn.session, turn.id)]


PROMPTS = {
    "characters": "say \"it\"; 'now' $HOME `id` \\n 😀 é 漢字\nin three\n  lines [[say:Read.]]",
    "slash": "/exit [[say:Read.]]",
    "bang": "!exit [[say:Read.]]",
    "100 KB": "a line among many, to be read\n" * 3400 + "[[say:Read.]]",
}


@every_agent_some_in_ci
async def test_prompts_come_whole_in_one_program_and_are_acknowledged(visible: Yard) -> None:
    """Newlines, quotes, `;`, emoji, 100 KB; then a second turn in the same program."""
    async with visible.ostler() as o:
        live = await visible.session(o)
        programs = set()
        for name, prompt in PROMPTS.items():
            visible.model.requests.clear()
            envelope, events = await run(live, prompt)
            assert (envelope.outcome, envelope.text) == ("done", "Read."), (name, envelope)
            sent = " ".join(prompt.split())  # gemini puts more before it, codex asks for a title as well
            assert any(" ".join(x.user.split()).endswith(sent) for x in visible.model.asked), name
            stages = [text.partition(" by ")[0] for text in of(events, "receipt")]
            assert stages == ["accepted", "echoed", "submitted", "acknowledged"]
            if visible.agent != "qwen" or "text: from a hook" not in envelope.evidence:  # its file may come too late
                assert envelope.usage is not None and envelope.usage.output_tokens
            [terminal] = o.terminals.list(live.id, live=True)
            programs.add(terminal.pid)
        assert len(programs) == 1
        await o.close_session(live.id)
        assert o.terminals.list(live.id, live=True) == []


@every_agent_some_in_ci
async def test_a_tool_is_asked_for_and_allowed_then_denied(visible: Yard) -> None:
    async with visible.ostler() as o:
        live = await visible.session(o, access="full")
        for name, option, made in (("yes.txt", "allow", True), ("no.txt", "deny", False)):
            turn = asyncio.create_task(run(live, visible.asking(f"touch {name}")))
            [ask] = await until(lambda: open_asks(o))
            if visible.agent != "gemini":  # which writes a call down once it has ended
                assert f"touch {name}" in json.dumps(ask.input), ask
            assert f"touch {name}" in ask.reason, ask
            await o.answer(live.id, AskAnswer(ask=ask.id, option=option, by="Eve"))
            envelope, events = await turn
            assert (visible.folder / name).exists() is made
            assert [(e.option, e.by) for e in events if isinstance(e, Answered)] == [
                ("allow_once" if made else "reject_once", "Eve")
            ]
            assert [e.id for e in events if isinstance(e, ToolStarted)] == [
                e.id for e in events if isinstance(e, ToolEnded)
            ]
            assert envelope.ok is made, envelope


@every_agent_some_in_ci
async def test_an_interrupt_ends_the_turn_and_not_the_program(visible: Yard) -> None:
    async with visible.ostler() as o:
        live = await visible.session(o)
        turn = asyncio.create_task(run(live, "[[hold:one]] wait"))
        await until(lambda: any(x.began for x in visible.model.asked))
        await until(lambda: "acknowledged" in " ".join(of(o.store.events(live.id), "receipt")))
        await o.cancel(live.id)
        envelope, events = await turn
        assert envelope.outcome == "cancelled" and not of(events, "not_interrupted")
        then, _ = await run(live, "[[say:Next.]]")
        assert then.ok, then
        if visible.agent != "qwen":  # which gives the prompt back: it would stand before the next one
            assert then.text == "Next." and len(o.terminals.list(live.id)) == 1
        visible.model.release("one")


@every_agent
async def test_a_killed_program_is_a_crash_and_the_next_turn_resumes(visible: Yard) -> None:
    async with visible.ostler() as o:
        live = await visible.session(o)
        first, _ = await run(live, "the first prompt [[say:One.]]")
        turn = asyncio.create_task(run(live, "[[hold:one]] wait"))
        await until(lambda: any(x.held for x in visible.model.asked))
        await until(lambda: "acknowledged by" in " ".join(of(o.store.events(live.id)[-12:], "receipt")))
        [terminal] = o.terminals.list(live.id, live=True)
        assert terminal.pid is not None
        os.kill(terminal.pid, signal.SIGKILL)
        envelope, _ = await turn
        assert (envelope.outcome, envelope.error and envelope.error.kind) == ("crashed", "crashed")
        visible.model.release("one")
        visible.model.requests.clear()
        then, _ = await run(live, "the last prompt")
        assert then.ok and then.agent_session == first.agent_session, (then.error, then.evidence)
        # The conversation went along.
        assert any("the first prompt" in x.text and "the last prompt" in x.text for x in visible.model.asked)


@every_agent_some_in_ci
async def test_who_leaves_ends_the_program(visible: Yard) -> None:
    async with visible.ostler() as o:
        live = await visible.session(o)
        await run(live, "[[say:One.]]")
        [terminal] = o.terminals.list(live.id, live=True)
        await o.terminals.kill(terminal.id, "TERM")
        await until(lambda: o.terminals.list(live.id, live=True) == [])
        then, _ = await run(live, "[[say:Two.]]")
        assert then.text == "Two." and len(o.terminals.list(live.id)) == 2


@every_agent
async def test_an_error_of_the_model_is_the_turns(visible: Yard) -> None:
    async with visible.ostler() as o:
        live = await visible.session(o)
        envelope, _ = await run(live, "[[error:400]]")
        assert envelope.error is not None and envelope.outcome == "failed", envelope
        assert envelope.error.kind == "bad_request"


@pytest.mark.parametrize("agent", ["codex"])
async def test_a_prompt_waits_for_a_first_run_screen_that_comes_late(visible: Yard) -> None:
    """It draws a box and asks about the folder only then, on a busy machine seconds later: as it is held up here."""
    async with visible.ostler() as o:
        live = await visible.session(o)
        turn = asyncio.create_task(run(live, "[[say:Read.]]"))
        [terminal] = await until(lambda: [t for t in o.terminals.list(live.id, live=True) if t.pid])
        assert terminal.pid is not None
        await until(lambda: _draws_box(o, terminal.id))
        os.killpg(terminal.pid, signal.SIGSTOP)
        await asyncio.sleep(QUIET + 2 * STEADY)  # after which a box counts as ready where no state is told
        os.killpg(terminal.pid, signal.SIGCONT)
        envelope, events = await turn
        assert (envelope.outcome, envelope.text) == ("done", "Read."), envelope
        assert of(events, "settled")[0].endswith("Open restricted")


async def _draws_box(o: Ostler, terminal: str) -> bool:
    face, seen = KNOWN["codex"].tui, await o.terminals.snapshot(terminal)
    return face is not None and face.box(TuiScreen(seen.text, seen.styled)) == ""


async def answered(o: Ostler, live: LiveSession, prompt: str) -> None:
    """A turn in which somebody allows everything that can be allowed."""
    turn = asyncio.create_task(run(live, prompt))
    while not turn.done():
        for ask in open_asks(o):
            for option in ("allow", "deny"):
                with contextlib.suppress(OstlerError):  # it has no such option, or is closed by now
                    await o.answer(live.id, AskAnswer(ask=ask.id, option=option))
        await asyncio.wait([turn], timeout=0.1)
    turn.result()


@every_agent
async def test_read_holds_against_settings_that_allow_everything(permissive: bool, visible: Yard) -> None:
    async with visible.ostler() as o:
        live = await visible.session(o, access="read")
        for prompt in ("[[write:made.txt]]", "[[shell:touch made.txt]]"):
            visible.model.requests.clear()
            await answered(o, live, prompt)
            assert visible.model.asked and not (visible.folder / "made.txt").exists(), prompt


@every_agent
async def test_write_stays_in_the_folder_whatever_people_allow(visible: Yard) -> None:
    outside = visible.home / "outside.txt"
    async with visible.ostler() as o:
        live = await visible.session(o, access="write")
        for prompt in (f"[[write:{outside}]]", f"[[shell:touch {outside}]]"):
            visible.model.requests.clear()
            await answered(o, live, prompt)
            assert visible.model.asked and not outside.exists(), prompt
        await answered(o, live, f"[[write:{visible.folder}/inside.txt]]")
        assert (visible.folder / "inside.txt").exists()


def hooks_in(events: list[AnyEvent]) -> list[str]:
    return [event.name for event in events if isinstance(event, Hook)]


SUBMITTED = {"gemini": "BeforeAgent"}
OVER = {"gemini": "AfterAgent"}


@hooked_agents
async def test_hooks_are_evidence_of_each_turn_of_one_program(visible: Yard) -> None:
    submitted, over = SUBMITTED.get(visible.agent, "UserPromptSubmit"), OVER.get(visible.agent, "Stop")
    async with visible.ostler() as o:
        live = await visible.session(o)
        turns = [await run(live, f"[[say:{word}.]]") for word in ("One", "Two")]
        assert [envelope.text for envelope, _ in turns] == ["One.", "Two."]
        assert len(o.terminals.list(live.id)) == 1
        for envelope, events in turns:
            assert [hooks_in(events).count(name) for name in (submitted, over)] == [1, 1], hooks_in(events)
            assert "hook: submitted" in of(events, "signal")
            assert any(line.startswith("hooks: ") for line in envelope.evidence)
        starts = [e for _, events in turns for e in events if isinstance(e, Hook) and e.name == "SessionStart"]
        assert {e.payload["session_id"] for e in starts} == {turns[0][0].agent_session}
        # Nothing of it is seen.
        [terminal] = o.terminals.list(live.id, live=True)
        assert "hook.py" not in "\n".join((await o.terminals.snapshot(terminal.id)).text)


@hooked_agents
async def test_a_person_decides_by_a_hook(visible: Yard) -> None:
    async with visible.ostler() as o:
        live = await visible.session(o, access="full")
        for name, option in (("yes.txt", "allow"), ("no.txt", "deny")):
            turn = asyncio.create_task(run(live, f"[[shell:touch {name}]]", hooks="ask"))
            seen: set[str] = set()
            while not turn.done():
                for ask in open_asks(o):  # gemini and codex know a no alone, and may ask by themselves then; qwen first
                    assert ask.id.startswith("hook-") or seen or visible.agent == "qwen"
                    seen.add(ask.id)
                    with contextlib.suppress(OstlerError):  # it is closed by now
                        await o.answer(live.id, AskAnswer(ask=ask.id, option=option, by="Eve"))
                await asyncio.wait([turn], timeout=0.1)
            envelope, events = turn.result()
            screen_alone = visible.agent == "qwen" and option == "deny"  # a no there ends the turn
            assert screen_alone or any(each.startswith("hook-") for each in seen)
            assert (visible.folder / name).exists() is (option == "allow"), (envelope, events)
            assert envelope.outcome == ("failed" if screen_alone else "done")


@hooked_agents
async def test_a_rule_denies_a_tool_call_by_a_hook(visible: Yard) -> None:
    config = visible.home / ".config" / "ostler"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[[asks]]\nanswer = "deny"\ncommand = "*made.txt*"\n')
    async with visible.ostler() as o:
        live = await visible.session(o, access="full")
        envelope, events = await run(live, "[[shell:echo no > made.txt]]")
        assert not (visible.folder / "made.txt").exists()
        assert ("reject_once", "rule 1") in [(e.option, e.by) for e in events if isinstance(e, Answered)]
        # qwen's screen asks before its hook does, and a no there ends the turn.
        assert envelope.outcome == ("failed" if visible.agent == "qwen" else "done"), envelope


@each(("claude", "gemini", "qwen", "copilot"), core=("claude",))
async def test_a_new_session_has_a_screen_that_is_started_already(visible: Yard) -> None:
    """codex has none: it chooses the id of its conversation itself."""
    config = visible.home / ".config" / "ostler" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"[pool]\nwarm = {{ {visible.agent} = 1 }}\n")
    kind = SpareKind(visible.agent, str(visible.folder), "read")
    async with visible.ostler() as o:
        first, _ = await run(await visible.session(o), "[[say:First.]]")
        assert (first.outcome, first.text) == ("done", "First.")
        [spare] = await until(lambda: o.keepers.spares.find(kind))
        started = o.keepers.tuis._live[spare].tui.program.row.pid
        assert o.terminals.list(spare) == []
        second = await visible.session(o)
        envelope, events = await run(second, "[[say:Second.]]")
        assert second.id == spare and (envelope.outcome, envelope.text) == ("done", "Second.")
        stages = [text.partition(" by ")[0] for text in of(events, "receipt")]
        assert stages == ["accepted", "echoed", "submitted", "acknowledged"]
        again, _ = await run(second, "[[say:Third.]]")
        assert again.text == "Third."
        assert [row.pid for row in o.terminals.list(spare, live=True)] == [started]
