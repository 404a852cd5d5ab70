"""Which hook of a program that lives over many turns says something of the turn that runs."""

from typing import Any

import pytest

from ostler.agents import AGENTS
from ostler.agents.hooks import HookFace
from ostler.work.hooks.hook_turn import Fired
from ostler.work.tuis.hook_signals import HookSignals

PROMPT = "mend the\n fence"


def face(agent: str) -> HookFace:
    found = AGENTS[agent].hooks
    assert found is not None
    return found


def fired(of: HookFace, name: str, **payload: Any) -> Fired:
    return Fired(
        name=name,
        at=0.0,
        payload=payload,
        starts=name == of.start,
        submits=name == of.submits,
        uses_tool=name in (of.before_tool, of.after_tool),
        ends=name in of.ends,
        proves=name in of.proves,
    )


def heard(agent: str, *hooks: tuple[str, dict[str, Any]], past: set[str] | None = None) -> list[str | None]:
    of = face(agent)
    signals = HookSignals(of, PROMPT, set() if past is None else past)
    return [signals.state_of(fired(of, name, **payload)) for name, payload in hooks]


SUBMIT = ("UserPromptSubmit", {"prompt": "mend the fence", "prompt_id": "p2"})
STOP = ("Stop", {"last_assistant_message": "Mended.", "prompt_id": "p2"})


@pytest.mark.parametrize(
    ("agent", "hooks", "says"),
    [
        ("claude", [("SessionStart", {"session_id": "s"}), SUBMIT, STOP], [None, "submitted", "done"]),
        ("claude", [SUBMIT, ("StopFailure", {"prompt_id": "p2", "error": "529"})], ["submitted", "failed"]),
        # It goes on after a Stop, since a hook of the user's own wants it to.
        ("claude", [SUBMIT, STOP, ("PreToolUse", {}), ("PostToolUse", {})], ["submitted", "done", "busy", "busy"]),
        ("codex", [("UserPromptSubmit", {"prompt": PROMPT, "turn_id": "t"}), ("Stop", {"turn_id": "t"})], None),
        # Fires after an interrupt, too: over, and nothing says how.
        ("gemini", [("BeforeAgent", {"prompt": PROMPT}), ("AfterAgent", {"prompt": PROMPT})], ["submitted", "ready"]),
        # One that never came is not missed.
        ("claude", [STOP], ["done"]),
        # Of another prompt: somebody typed it, it is late, or it is doubled.
        ("claude", [("UserPromptSubmit", {"prompt": "another", "prompt_id": "x"})], [None]),
        ("claude", [SUBMIT, ("Stop", {"prompt_id": "p1"})], ["submitted", None]),
        ("claude", [("Stop", {"prompt_id": "p1"}), SUBMIT], [None, "submitted"]),
        ("qwen", [SUBMIT, ("UserPromptSubmit", {"prompt": "", "prompt_id": "p2"})], ["submitted", None]),
        # Without any id their order decides.
        ("script", [("Stop", {}), ("PreToolUse", {})], [None, None]),
        ("script", [("UserPromptSubmit", {"prompt": PROMPT}), ("Stop", {})], None),
        ("claude", [("Notification", {}), ("SessionEnd", {})], [None, None]),
        ("claude", [("UserPromptSubmit", {"prompt": None}), ("UserPromptSubmit", {"prompt_id": 3})], [None, None]),
    ],
)
def test_what_hooks_say(agent: str, hooks: list[tuple[str, dict[str, Any]]], says: list[str | None] | None) -> None:
    assert heard(agent, *hooks, past={"p1"}) == (["submitted", "done"] if says is None else says)


def test_what_they_tell_besides() -> None:
    of, past = face("claude"), set[str]()
    signals = HookSignals(of, PROMPT, past)
    for name, payload in (("SessionStart", {"session_id": "s"}), SUBMIT, STOP):
        signals.state_of(fired(of, name, **payload))
    assert (signals.session, signals.answer, past) == ("s", "Mended.", {"p2"})
    assert heard("claude", STOP, past=past) == [None]  # the same again, in the next turn
    signals.state_of(fired(of, "StopFailure", prompt_id="p2", error="API Error: 529"))
    assert signals.failure == "API Error: 529"
