"""Every option of a turn at every door: the same words say the same thing on the command line, over HTTP and ACP,
in Python and in a profile. Each door runs two turns; what the store then has of them is compared.
"""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import click
import pytest

from acp_peer import peer_of
from cli.conftest import Shell
from ostler.acp.options import ELSEWHERE as ELSEWHERE_IN_ACP
from ostler.acp.options import ClientOptions
from ostler.cli import cli
from ostler.model import Attachment, Limits, Turn, TurnOptions
from ostler.server.routes_turns import NewTurn
from ostler.settings import Profile, load_settings
from ostler.store import Store
from ostler.work import Ostler
from ostler.work.turns.keywords import RunKeywords
from server.conftest import yard_at
from waiting import until

SECRET = "of-oats-and-hay-and-straw"
# All of TurnOptions: a new one is missing here, and then at the doors.
OPTIONS: dict[str, Any] = {
    "system": "Be brief.",
    "system_mode": "replace",
    "tools_allowed": ["shell", "read"],
    "tools_denied": ["web"],
    "first_tools_allowed": ["shell"],
    "first_tools_denied": ["edit", "web"],
    "env": {"STABLE_TOKEN": SECRET, "STABLE": "north"},
    "fallback": ["codex"],
    "access": "full",
    "model": "roan",
    "limits": {"total": 600.0},
    "mcp": [],  # the scripted agent takes none; tests/work/turns/test_mcp_servers.py has some
    "hooks": True,
    "agent_flags": ["--scenario="],
    "attachments": ["oats.txt"],
    "schema": {"type": "object"},
    "command": True,
    "transport": "dialog",
    "mode": "plan",
    "wait_for": "forwarded",
    "priority": 7,
}
PROMPT = "[[run:echo $STABLE $STABLE_TOKEN]] [[say:{}]]"

# What a door says in its own way, or cannot say at all, and why.
ELSEWHERE: dict[tuple[str, str], str] = {
    ("chat", "attachments"): "a chat has no files yet",
    ("chat", "schema"): "answers of a chat are for people",
    ("chat", "limits"): "those of the profile or the settings",
    ("chat", "command"): "a line that begins with a command of the agent is one",
    ("chat", "mode"): "/mode",
    ("chat", "transport"): "always a dialog",
    ("profile", "attachments"): "of one prompt",
    ("profile", "schema"): "of one prompt",
    ("profile", "command"): "of one prompt",
    ("profile", "mode"): "of a dialog",
    ("profile", "wait_for"): "of one prompt",
    ("chat", "wait_for"): "a person waits for the answer",
    ("acp", "access"): "the option `mode`",
    ("acp", "model"): "the option `model`",
    ("acp", "attachments"): "blocks of the prompt",
    ("acp", "schema"): "ACP has none",
    ("acp", "limits"): "those of the profile or the settings",
    ("acp", "command"): "a prompt that begins with a command of the agent is one",
    ("acp", "mode"): "the modes are accesses there",
    ("acp", "mcp"): "`mcpServers`",
    ("acp", "transport"): "a dialog where the agent holds one",
}
FLAGS = {
    "tools_allowed": "allow_tool",
    "tools_denied": "deny_tool",
    "first_tools_allowed": "first_allow_tool",
    "first_tools_denied": "first_deny_tool",
    "attachments": "attach",
    "limits": "timeout",
}


def flags_of(command: str) -> set[str]:
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    known = {parameter.name or "" for parameter in found.params}
    return known | {option for option, flag in FLAGS.items() if flag in known}


NAMES: dict[str, Callable[[], set[str]]] = {
    "run": lambda: flags_of("run"),
    "chat": lambda: flags_of("chat"),
    "http": lambda: {*NewTurn.__struct_fields__},
    "profile": lambda: {*Profile.__struct_fields__},
    "python": lambda: {*get_type_hints(RunKeywords)},
    "acp": lambda: {*ClientOptions.__struct_fields__},
}


@pytest.mark.parametrize("door", NAMES)
def test_no_option_is_missing_at_a_door(door: str) -> None:
    wanted = {*TurnOptions.__struct_fields__}
    there = NAMES[door]()
    elsewhere = {option for at, option in ELSEWHERE if at == door}
    assert wanted - there - elsewhere == set()
    assert elsewhere & there == set(), "it is there by now"
    session = {*inspect.signature(Ostler.session).parameters}
    assert {"model", "access", "system", "system_mode"} <= session
    assert {option for at, option in ELSEWHERE if at == "acp"} == ELSEWHERE_IN_ACP


def given_at(door: str) -> dict[str, Any]:
    """The options that this door itself can say."""
    return {name: value for name, value in OPTIONS.items() if (door, name) not in ELSEWHERE}


# -- each door, with everything at once -------------------------------------------------------------


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    made.environ |= {"OSTLER_HOME": str(tmp_path / "state"), "OSTLER_SCRIPT_SPEED": "0"}
    (made.folder / "oats.txt").write_text("oats")
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.wait()


def given_by_flags(door: str, shell: Shell) -> list[str]:
    (shell.folder / "schema.json").write_text(json.dumps(OPTIONS["schema"]))
    given = {
        **given_at(door),
        "env": [f"{name}={value}" for name, value in OPTIONS["env"].items()],
        "limits": "10m",
        "schema": "schema.json",
        "hooks": "on",
    }
    flags = []
    for option in given_at(door):
        flag, value = f"--{FLAGS.get(option, option).replace('_', '-')}", given[option]
        if option == "command":
            flags.append(flag)
        else:
            flags += [f"{flag}={each}" for each in (value if isinstance(value, list) else [value])]
    return flags


async def by_run(shell: Shell) -> None:
    for more in (["claude"], ["--continue"]):
        ran = await asyncio.to_thread(shell, "run", *more, *given_by_flags("run", shell), "--json", PROMPT)
        assert ran.returncode == 0, ran.stderr


async def by_chat(shell: Shell) -> None:
    flags, typed = given_by_flags("chat", shell), f"{PROMPT}\n{PROMPT}\n".encode()
    ran = await asyncio.to_thread(shell, "chat", "claude", *flags, stdin=typed)
    assert ran.returncode == 0, ran.stdout + ran.stderr


async def by_profile(shell: Shell) -> None:
    shell.toml(profile_of(given_at("profile")))
    for more in (["groom"], ["--continue"]):
        ran = await asyncio.to_thread(shell, "run", *more, "--json", PROMPT)
        assert ran.returncode == 0, ran.stderr


def profile_of(options: dict[str, Any]) -> str:
    tables = {name: value for name, value in options.items() if isinstance(value, dict)}
    lines = ["[profiles.groom]", "agent = 'claude'"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in options.items() if name not in tables]
    for name, table in tables.items():
        lines += [f"[profiles.groom.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


async def by_python(shell: Shell) -> None:
    settings = load_settings(folder=str(shell.folder), environ=shell.environ).settings
    async with Ostler(settings, shell.environ) as o:
        live = await o.session("claude", folder=str(shell.folder))
        attached = [str(shell.folder / name) for name in OPTIONS["attachments"]]
        python = {**given_at("python"), "limits": Limits(**OPTIONS["limits"]), "attachments": attached}
        for _ in range(2):
            async for _ in live.run(PROMPT, **python):
                pass
            assert live.last and live.last.ok, live.last


async def by_http(shell: Shell) -> None:
    async with yard_at(shell.home.parent) as yard:
        made = await yard.client.post("/api/sessions", json={"agent": "claude", "folder": str(yard.folder)})
        attached = [{"path": name} for name in OPTIONS["attachments"]]
        (yard.folder / "oats.txt").write_text("oats")
        body = {"prompt": PROMPT, **given_at("http"), "attachments": attached}
        async with yard.as_("view") as viewer:  # who may not open a terminal may not hand over variables either
            refused = await viewer.post(f"/api/sessions/{made.json()['id']}/turns", json=body)
            assert (refused.status_code, refused.json()["kind"]) == (403, "denied")
        for _ in range(2):
            answer = await yard.client.post(f"/api/sessions/{made.json()['id']}/turns", json=body)
            assert answer.status_code == 202, answer.text
            id = answer.json()["id"]
            await until(lambda id=id: yard.ostler.find_turn(id).state == "ended")
            assert SECRET not in (await yard.client.get(f"/api/turns/{id}")).text


async def by_acp(shell: Shell) -> None:
    meta = {"ostler": given_at("acp")}
    async with peer_of(shell.folder, "claude", initialize={"protocolVersion": 1}, **shell.environ) as peer:
        made = await peer.call("session/new", cwd=str(shell.folder), mcpServers=[], _meta=meta)
        for _ in range(2):
            prompt = [{"type": "text", "text": PROMPT}]
            told = await peer.call("session/prompt", sessionId=made["sessionId"], prompt=prompt)
            assert told["stopReason"] == "end_turn"
        assert SECRET not in json.dumps(peer.frames)


DOORS: dict[str, Callable[[Shell], Awaitable[None]]] = {
    "run": by_run,
    "chat": by_chat,
    "http": by_http,
    "profile": by_profile,
    "python": by_python,
    "acp": by_acp,
}


@pytest.mark.parametrize("door", DOORS)
async def test_every_option_reaches_the_turn_and_no_secret_is_kept(door: str, shell: Shell, tmp_path: Path) -> None:
    assert {*OPTIONS} == {*TurnOptions.__struct_fields__} and {*DOORS} == {*NAMES}
    await DOORS[door](shell)
    store = Store.open(str(tmp_path / "state"))
    try:
        (session,) = store.sessions()
        turns = [row.turn for row in store.turns(session.id)]
        journal = [str(event) for event in store.events(session.id)]
    finally:
        store.close()
    check_turns(turns, door)
    assert sum("north " in line for line in journal) >= 2 and not any(SECRET in line for line in journal)
    kept = [path for path in (tmp_path / "state").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert kept == []


def check_turns(turns: list[Turn], door: str) -> None:
    given = {
        "access": "full",
        "model": "roan",
        "limits": Limits(total=600.0),
        "mcp": (),
        "hooks": True,
        "agent_flags": ("--scenario=",),
        "attachments": (Attachment(path=f"{turns[0].folder}/oats.txt", name="oats.txt"),),
        "schema": {"type": "object"},
        "command": True,
        "transport": "dialog",
        "mode": "plan",
        "wait_for": "forwarded",
    }
    for option in given_at(door).keys() & given.keys():
        assert [getattr(turn, option) for turn in turns] == [given[option]] * 2, option
    assert [(turn.system, turn.system_mode) for turn in turns] == [("Be brief.", "replace")] * 2
    assert [turn.tools_allowed for turn in turns] == [("shell",), ("shell", "read")]
    assert [turn.tools_denied for turn in turns] == [("edit", "web"), ("web",)]
    assert [turn.env for turn in turns] == [{"STABLE_TOKEN": "", "STABLE": ""}] * 2
    assert [turn.fallback for turn in turns] == [("codex",)] * 2


def test_a_folder_that_nobody_trusts_says_none_of_it(shell: Shell) -> None:
    """A profile of a cloned repository, its variables and its fallback do not count; that is told."""
    groom = profile_of({**given_at("profile"), "env": {"PATH": "/evil"}})
    (shell.folder / "ostler.toml").write_text(f'fallback = ["codex"]\nenv = {{ A = "b" }}\n{groom}\n')
    loaded = load_settings(folder=str(shell.folder), environ=shell.environ)
    assert (loaded.settings.profiles, loaded.settings.env, loaded.settings.fallback) == ({}, {}, ())
    (told,) = loaded.notices
    assert all(key in told for key in ("profiles.groom", "env", "fallback"))


async def test_the_agents_own_screen_at_every_door(shell: Shell, tmp_path: Path) -> None:
    """`transport = "pty"`: on the command line, over HTTP, in Python and in a profile."""
    shell.toml('[profiles.groom]\nagent = "claude"\ntransport = "pty"\n')
    for words in (["claude", "--transport", "pty"], ["groom"]):
        ran = await asyncio.to_thread(shell, "run", *words, "--json", "[[say:Hay.]]")
        assert (ran.returncode, json.loads(ran.stdout)["text"]) == (0, "Hay."), ran.stderr
    settings = load_settings(folder=str(shell.folder), environ=shell.environ).settings
    async with Ostler(settings, shell.environ) as o:
        live = await o.session("claude", folder=str(shell.folder))
        assert (await live.run("[[say:Hay.]]", transport="pty")).text == "Hay."
    async with yard_at(shell.home.parent) as yard:
        made = await yard.client.post("/api/sessions", json={"agent": "claude", "folder": str(yard.folder)})
        body = {"prompt": "[[say:Hay.]]", "transport": "pty"}
        begun = await yard.client.post(f"/api/sessions/{made.json()['id']}/turns", json=body)
        assert begun.status_code == 202, begun.text
        await until(lambda: yard.ostler.find_turn(begun.json()["id"]).state == "ended")
        row = yard.ostler.find_turn(begun.json()["id"])
        assert (begun.json()["transport"], row.envelope and row.envelope.text) == ("pty", "Hay.")
        [terminal] = yard.ostler.terminals.list(made.json()["id"], live=True)
        shown = await yard.client.get(f"/api/terminals/{terminal.id}/snapshot")
        assert shown.status_code == 200 and "● Hay." in shown.text
