"""What a folder brings for an agent, with a program that stands for claude: left out and told, until it is trusted.

The real CLIs: tests/real/test_hostile_folder.py.
"""

import asyncio
import json
import os

import pytest

from agents.replayed import CAPTURES
from ostler.access import Access
from ostler.agents import AGENTS
from ostler.model import AnyEvent, Envelope, Notice, TurnOptions
from ostler.settings import recorded_answers, trust_file
from ostler.work import Ostler
from ostler.work.project_config import read_project_config, remember_answer
from ostler.work.turns.begin import begin
from waiting import until
from work.scripted import Stable, collect

RECORDS = CAPTURES / "claude" / "append-system-prompt.ndjson"
HOOK = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "touch evil"}]}]}}


class StandIn:
    """Answers every prompt with a recorded turn of claude, and keeps the command lines."""

    def __init__(self, stable: Stable) -> None:
        self.stable, self.gate = stable, stable.home / "gate"
        self._log = stable.home / "launches"
        program = stable.home / "bin" / "claude"
        program.parent.mkdir()
        kept = stable.home / ".claude" / "projects" / "x"
        id = json.loads(RECORDS.read_text().splitlines()[0])["session_id"]
        program.write_text(
            f"""#!/bin/sh
case "$1" in
--version) echo "2.1.325 (Claude Code)"; exit;;
--help) cat {CAPTURES / "claude" / "help.txt"}; exit;;
esac
cat > /dev/null
printf '%s\\0' "$@" >> {self._log}; printf '\\036' >> {self._log}
mkdir -p {kept}; touch {kept}/{id}.jsonl
case "$HOLDS" in ?*) cat {self.gate} > /dev/null;; esac
cat {RECORDS}
"""
        )
        program.chmod(0o755)
        config = stable.home / ".config" / "ostler" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(f'[commands]\nclaude = ["{program}"]\n')
        stable.script.env.pop("OSTLER_ONLY")

    @property
    def launches(self) -> list[list[str]]:
        return [argv.rstrip("\0").split("\0") for argv in self._log.read_text().rstrip("\x1e").split("\x1e")]

    def bring(self, text: str = json.dumps(HOOK)) -> None:
        settings = self.stable.folder / ".claude" / "settings.json"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(text)

    def trust(self) -> None:
        agent, answers = AGENTS["claude"], trust_file(self.stable.env)
        remember_answer(
            read_project_config(str(self.stable.folder), agent, str(self.stable.home), recorded_answers(answers)),
            agent,
            answers,
            True,
        )

    async def turn(self, access: Access) -> tuple[Envelope, list[AnyEvent]]:
        return await self.stable.turn(agent="claude", access=access)


@pytest.fixture
def claude(stable: Stable) -> StandIn:
    return StandIn(stable)


def told(events: list[AnyEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and "trust" in event.text]


LEFT_OUT = "left out, since you have not trusted {}: 1 hook (.claude/settings.json)."
ADVICE = "Look at it, then run `ostler trust`"


@pytest.mark.parametrize("access", ["read", "write", "full"])
async def test_what_was_left_out_is_told_whatever_the_access(claude: StandIn, access: Access) -> None:
    folder = claude.stable.folder
    (folder / "CLAUDE.md").write_text("The word is oats.")
    claude.bring()
    envelope, events = await claude.turn(access)
    assert envelope.ok, envelope
    assert told(events) == [f"{LEFT_OUT.format(folder)} {ADVICE}"]
    claude.trust()
    _, events = await claude.turn(access)
    assert told(events) == []
    claude.bring(json.dumps({**HOOK, "model": "other"}))
    _, events = await claude.turn(access)
    assert told(events) == [f"{LEFT_OUT.format(folder)} It has changed since you trusted it. {ADVICE}"]
    without, trusted, changed = claude.launches
    for argv in (without, changed):
        assert "--setting-sources=user" in argv
        assert any("The word is oats." in flag for flag in argv), "what it tells the agent stays in force"
    assert "--setting-sources=user" not in trusted and not any("oats" in flag for flag in trusted)


async def test_a_folder_that_brings_nothing_is_told_nothing(claude: StandIn) -> None:
    envelope, events = await claude.turn("full")
    assert envelope.ok and told(events) == []


async def test_instructions_that_were_cut_are_named(claude: StandIn) -> None:
    claude.bring()
    (claude.stable.folder / "CLAUDE.md").write_text("oats " * 40_000)
    _, events = await claude.turn("read")
    assert [e.text for e in events if isinstance(e, Notice) and "KiB" in e.text] == [
        "instructions beyond 128 KiB were left out: CLAUDE.md"
    ]


async def queued(o: Ostler, session: str) -> str:
    begun = await begin(await o.session(session=session), "and again", TurnOptions(), wait=True)
    assert begun.row.state == "queued"
    return begun.row.id


@pytest.mark.parametrize("trusts", [True, False])
async def test_a_queued_turn_has_the_trust_of_when_it_begins(claude: StandIn, trusts: bool) -> None:
    os.mkfifo(claude.gate)
    claude.bring()
    if not trusts:
        claude.trust()
    async with claude.stable.ostler() as o:
        live = await o.session("claude", folder=str(claude.stable.folder))
        await collect(live, "begin")  # the conversation is there, and stays the same
        first = asyncio.create_task(collect(live, "go", env={"HOLDS": "yes"}))
        await until(lambda: len(claude.launches) == 2)
        turn = await queued(o, live.id)
        if trusts:
            claude.trust()
        else:
            claude.bring(json.dumps({**HOOK, "model": "other"}))
        await asyncio.to_thread(lambda: claude.gate.open("w").close())
        await first
        row = await until(lambda: (row := o.find_turn(turn)).state == "ended" and row)
        assert row.envelope.ok, row.envelope
        assert bool(told(o.store.events(live.id, turn=turn))) is not trusts
    assert ["--setting-sources=user" in argv for argv in claude.launches] == [trusts, trusts, not trusts]
