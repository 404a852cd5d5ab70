"""What the doctor finds out by trying: small real programs stand in for the CLIs, the scripted agent for a model."""

from pathlib import Path

import pytest
from msgspec import structs

from ostler.agents import AGENTS
from ostler.agents.adapter import Agent, OwnSandbox
from ostler.settings import Settings
from ostler.work.checkup import with_sandbox
from ostler.work.probe import AgentReport, OnlineAnswer
from work.scripted import Stable

FOUND = AgentReport(name="claw", title="Claw", installed=True, login="yes", install="")


def claw(sandbox: OwnSandbox | None) -> Agent:
    return structs.replace(AGENTS["script"], name="claw", module="", binaries=("claw",), sandbox=sandbox)


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("does", "state", "problem"),
    [
        ("exit 0", "works", ""),
        ("echo 'wrap: no right'; exit 1", "broken", "wrap: no right. Give it the right"),
        ("exit 3", "broken", "its check ended with exit code 3. Give it the right"),
        ("exit 2", "unknown", "its check did not run"),  # a version that does not know the command
    ],
)
async def test_a_sandbox_is_tried(tmp_path: Path, does: str, state: str, problem: str) -> None:
    program(tmp_path / "bin/claw", f'[ "$*" = "sandbox -- true" ] || exit 9\n{does}')
    agent = claw(OwnSandbox(check=("", "sandbox", "--", "true"), needs="Give it the right"))
    environ = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    told = await with_sandbox(FOUND, agent, environ, Settings())
    assert told == structs.replace(FOUND, sandbox=state, sandbox_problem=problem)


async def test_without_a_path_programs_are_found_where_they_are_by_default() -> None:
    """As for the report that this adds to."""
    agent = structs.replace(claw(OwnSandbox(check=(), programs=("sh",))), binaries=("sh",))
    assert (await with_sandbox(FOUND, agent, {}, Settings())).sandbox == "unknown"


async def test_what_a_sandbox_needs_is_missing(tmp_path: Path) -> None:
    program(tmp_path / "bin/claw", "exit 0")
    agent = claw(OwnSandbox(check=("wrap", "true"), programs=("wrap", "socket-cat"), needs="Install them"))
    environ = {"PATH": f"{tmp_path}/bin", "HOME": str(tmp_path)}
    told = await with_sandbox(FOUND, agent, environ, Settings())
    assert (told.sandbox, told.sandbox_problem) == ("broken", "wrap and socket-cat are not on PATH. Install them")
    program(tmp_path / "bin/wrap", "exit 0")
    program(tmp_path / "bin/socket-cat", "exit 0")
    assert (await with_sandbox(FOUND, agent, environ, Settings())).sandbox == "works"
    assert await with_sandbox(FOUND, claw(None), environ, Settings()) == FOUND
    untried = await with_sandbox(FOUND, claw(OwnSandbox(check=())), environ, Settings())
    assert untried == structs.replace(
        FOUND, sandbox="unknown", sandbox_problem=f"{AGENTS['script'].title} cannot check it"
    )


async def test_an_agent_is_asked_for_one_word_and_nothing_is_kept(stable: Stable) -> None:
    stable.script.plays({"match": "connection", "steps": [{"say": "ok"}]})
    async with stable.ostler() as o:
        (quiet,) = await o.doctor(["script"])
        (asked,) = await o.doctor(["script"], online=True)
        assert quiet.online is None and asked.online is not None
        assert asked.online.ok and asked.online.text.startswith("answered in ") and asked.login == "yes"
        assert o.sessions() == [] and not list((stable.state / "sessions").iterdir())


@pytest.mark.parametrize(("kind", "login"), [("unauthenticated", "no"), ("overloaded", "yes")])
async def test_an_agent_that_does_not_answer(stable: Stable, kind: str, login: str) -> None:
    stable.script.plays({"steps": [{"fail": {"kind": kind, "message": "the key is void"}}]})
    async with stable.ostler() as o:
        (asked,) = await o.doctor(["script"], online=True)
        assert (asked.login, asked.online) == (login, OnlineAnswer(ok=False, text=f"{kind}: the key is void"))
        assert o.sessions() == []
