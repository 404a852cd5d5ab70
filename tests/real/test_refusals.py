"""Who refused what: advice to widen the access is for what the access refused, and for nothing else."""

import os
import sys
from pathlib import Path

import pytest

from ostler.model import Answered, Asked, Notice, ToolEnded, ToolStarted
from ostler.work.dialogs.asks import AskAnswer
from real.yard import AGENTS, Yard

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("how", ["no", "cancel"])
async def test_no_other_access_is_advised_where_a_person_refused(yard: Yard, how: str) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="write")
        asks = 0
        async for event in live.run("[[write:app.py]]", transport="dialog"):
            if isinstance(event, Asked):
                asks += 1
                if how == "cancel":
                    await o.cancel(live.id)
                else:
                    await o.answer(live.id, AskAnswer(ask=event.id, option="deny", by="a person"))
    assert asks == 1 and not (yard.folder / "app.py").exists()
    assert [d.access for d in live.last.denied if d.access] == [], live.last.denied
    if how == "no":
        assert live.last.denied, "the refusal is told"
    else:
        assert live.last.outcome == "cancelled" and live.last.denied == ()


def break_sandbox(yard: Yard, agent: str) -> None:
    programs = yard.home / "bin"
    programs.mkdir()
    real = Path(os.environ["OSTLER_TEST_CLIS"]) / "node_modules" / ".bin" / agent
    without = Path(__file__).parent / "unsandboxable.py"
    (programs / agent).write_text(f'#!/bin/sh\nexec {sys.executable} {without} {real} "$@"\n')
    (programs / agent).chmod(0o755)
    yard.env["PATH"] = f"{programs}:{yard.env['PATH']}"


@pytest.mark.parametrize("agent", ["codex"])
@pytest.mark.parametrize("access", ["read", "write"])
async def test_a_sandbox_that_cannot_start_is_told_as_that(yard: Yard, access: str) -> None:
    break_sandbox(yard, "codex")
    envelope, events = await yard.turn("[[shell:echo x > made.txt]]", access=access)
    assert envelope.ok and envelope.denied == (), envelope
    (told,) = [e for e in events if isinstance(e, Notice) and e.code == "no_sandbox"]
    assert "bwrap: " in told.text and "--access" not in told.text
    (ended,) = [e for e in events if isinstance(e, ToolEnded)]
    assert (ended.ok, ended.denied) == (False, False) and ended.output.startswith("bwrap: ")
    assert not (yard.folder / "made.txt").exists()
    async with yard.ostler() as o:
        (doctor,) = await o.doctor(["codex"])
        assert doctor.sandbox == "broken" and "bwrap: " in doctor.sandbox_problem, doctor


@pytest.mark.parametrize("agent", ["codex"])
@pytest.mark.parametrize("access", ["read", "write"])
async def test_a_dialog_without_its_sandbox_says_what_is_missing(yard: Yard, access: str) -> None:
    """codex tries its sandbox with the first command; under `write` ostler does so before, to look into its history."""
    break_sandbox(yard, "codex")
    async with yard.ostler() as o:
        live = await yard.session(o, access=access)
        events = [event async for event in live.run("[[shell:echo x > made.txt]]", transport="dialog")]
    assert not (yard.folder / "made.txt").exists()
    assert live.last.ok and live.last.denied == (), live.last
    (told,) = [e for e in events if isinstance(e, Notice)]
    assert told.code == "no_sandbox" and "--access" not in told.text
    assert "bwrap: " in told.text and "bubblewrap" in told.text
    ended = [e for e in events if isinstance(e, ToolEnded)]
    assert all((e.ok, e.denied) == (False, False) and e.output.startswith("bwrap: ") for e in ended)
    if access == "read":  # codex tried it; of a command that fails at once it tells no item
        assert any("bwrap: " in request.text for request in yard.model.asked)
    else:
        assert len(ended) == 1
    assert not [e for e in events if isinstance(e, Asked)], "nobody is asked about a command that cannot run"


RULES = '[[asks]]\nanswer = "deny"\ntool = "shell"\n[[asks]]\nanswer = "allow"\n'


@pytest.mark.parametrize("agent", AGENTS)
async def test_a_rule_by_ostlers_word_denies_commands_of_every_agent(yard: Yard) -> None:
    settings = yard.home / ".config" / "ostler" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(RULES)
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        prompt = yard.asking("echo x > made.txt")
        events = [event async for event in live.run(prompt, transport="dialog")]
    asked = [event for event in events if isinstance(event, Asked)]
    assert asked and {event.category for event in asked} == {"shell"}
    assert {(event.option, event.by) for event in events if isinstance(event, Answered)} == {("reject_once", "rule 1")}
    assert {event.category for event in events if isinstance(event, ToolStarted)} == {"shell"}
    assert not (yard.folder / "made.txt").exists()


ADDING = "[[tool:apply_patch:*** Begin Patch\n*** Add File: made.txt\n+x\n*** End Patch]]"


@pytest.mark.parametrize(("first", "by"), [("deny write", "rule 1"), ("allow edit", "rule 2")])
@pytest.mark.parametrize("agent", ["codex", "codex-acp"])
async def test_a_rule_on_write_denies_a_patch_that_adds_a_file(yard: Yard, first: str, by: str) -> None:
    settings = yard.home / ".config" / "ostler" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    rules = [each.split() for each in dict.fromkeys((first, "deny write", "allow edit"))]
    told = "".join(f'[[asks]]\nanswer = "{answer}"\ntool = "{tool}"\n' for answer, tool in rules)
    settings.write_text((settings.read_text() if settings.exists() else "") + told)
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        events = [event async for event in live.run(ADDING, transport="dialog")]
    (asked,) = [event for event in events if isinstance(event, Asked)]
    assert (asked.category, [file.change for file in asked.files]) == ("edit", ["add"])
    assert [(event.option, event.by) for event in events if isinstance(event, Answered)] == [("reject_once", by)]
    assert not (yard.folder / "made.txt").exists()
