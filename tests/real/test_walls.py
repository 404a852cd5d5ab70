"""Real CLIs behind walls: they work there as ever, and nothing gets out; each against the scripted model."""

import importlib
import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from needs import needs
from ostler.agents import AGENTS
from ostler.model import Asked, Envelope, Host, Launch, Limits, Notice, ToolEnded, Turn
from ostler.work import LiveSession, Ostler
from ostler.work.dialogs.asks import AskAnswer
from real.token_server import token_server
from real.yard import Yard, each
from security import attack
from security.attacked import MAY_FAIL, NOT_HELD, TRIES, told, world_in

WALLED = ("claude", "gemini", "qwen", "opencode", "copilot")
HELD_IN_CI = {("claude", "write"), ("claude", "read"), ("opencode", "write"), ("copilot", "write")}
pytestmark = [pytest.mark.timeout(300), needs("landlock")]

# What an agent is asked to do all day: run the tests of two languages, commit what is there.
WORK = f"""
set -e
{sys.executable} -m pytest -q -p no:cacheprovider test_it.py
node {{npm}} test --silent
git add -A
git -c user.name=x -c user.email=x commit -q -m walled
echo x > "$TMPDIR/x"
echo all of it > done.txt
"""


def furnish(folder: Path) -> None:
    npm = Path(os.environ["OSTLER_TEST_NODE"]).parent / "lib/node_modules/npm/bin/npm-cli.js"
    (folder / "work.sh").write_text(WORK.format(npm=npm))
    (folder / "test_it.py").write_text(
        "import multiprocessing\n\ndef test_it(tmp_path):\n    (tmp_path / 'x').write_text('x')\n"
        "    multiprocessing.Lock()\n"
    )
    (folder / "package.json").write_text(json.dumps({"scripts": {"test": "node -e 'process.exit(0)'"}}))
    (folder / "way-out").symlink_to(folder.parent)


def without_sandbox(yard: Yard) -> None:
    """A machine that has neither bwrap nor socat: claude's own sandbox cannot start."""
    programs = yard.home.parent / "bin"
    programs.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name not in ("bwrap", "socat"):
            (programs / program.name).symlink_to(program)
    yard.env["PATH"] = yard.env["PATH"].replace("/usr/local/bin:/usr/bin:/bin", str(programs))


async def talk(o: Ostler, live: LiveSession, prompt: str, **options: Any) -> tuple[Envelope, list[Any]]:
    """One turn; a person says yes to whatever it asks."""
    events = []
    async for event in live.run(prompt, **options):
        events.append(event)
        if isinstance(event, Asked) and event.id in {ask.id for ask in o.open_asks(event.turn)}:
            await o.answer(live.id, AskAnswer(ask=event.id, option="allow", by="a person"))
    assert live.last is not None
    return live.last, events


def with_full_flags(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent allows itself everything, under every access: the wall alone is left."""
    agent = AGENTS[name]
    module = importlib.import_module(agent.launch.__module__)
    if name == "opencode":  # whose reader looks for the agent of its access
        for access in ("read", "write"):
            monkeypatch.setitem(module.RULES, access, module.RULES["full"])
        return

    def launch(turn: Turn, host: Host) -> Launch:
        return agent.launch(structs.replace(turn, access="full"), host)

    monkeypatch.setattr(module, "AGENT", structs.replace(agent, launch=launch))


@pytest.mark.parametrize(
    ("agent", "access"),
    [
        pytest.param(agent, access, marks=[pytest.mark.core] if (agent, access) in HELD_IN_CI else [])
        for agent in WALLED
        for access in ("write", "read")
    ],
)
async def test_nothing_gets_out_of_an_agent_that_allows_itself_everything(
    yard: Yard, access: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every try of the attacker by its shell; then its edit tool: outside, through a link, into its settings."""
    without_sandbox(yard)
    with_full_flags(yard.agent, monkeypatch)
    (yard.folder / "way-out").symlink_to(yard.home)
    edits = (yard.home / "outside.txt", yard.folder / "way-out" / "outside-2.txt", yard.home / ".bashrc")
    with world_in(yard.home.parent, yard.home) as world:
        (yard.folder / "go.sh").write_text(f"{shlex.join(world.argv)} 2> /dev/null")
        before = set(os.listdir(yard.folder))
        async with yard.ostler(OSTLER_WALLS="required") as o:
            live = await yard.session(o, access=access)
            _, events = await talk(o, live, "[[shell:sh go.sh]]")
            said = told("".join(e.output for e in events if isinstance(e, ToolEnded)))
            assert (said.tried, said.planted) == (TRIES, 0) and said.through <= NOT_HELD, said
            for path in edits[: None if access == "write" else 1]:
                await talk(o, live, f"[[write:{path}]]")
        assert (world.taken(), world.planted()) == (set(), [])
        assert not [path for path in edits if path.exists()]
        assert (set(os.listdir(yard.folder)) != before) is (access == "write")


@each(WALLED, core=("claude",))
async def test_without_a_wall_the_same_gets_through_it(yard: Yard) -> None:
    """The same tries by the same shell under `full`: that they get through shows that a wall is what holds them."""
    with world_in(yard.home.parent, yard.home) as world:
        (yard.folder / "go.sh").write_text(f"{shlex.join(world.argv)} 2> /dev/null")
        async with yard.ostler() as o:
            _, events = await talk(o, await yard.session(o, access="full"), "[[shell:sh go.sh]]")
        said = told("".join(e.output for e in events if isinstance(e, ToolEnded)))
        assert (said.tried, said.planted) == (TRIES, len(attack.POWER))
        assert attack.FILES.keys() - world.taken() <= MAY_FAIL
        assert {"connects_to_a_socket", "connects_to_an_abstract_socket", "signals_another"} <= said.through


@pytest.mark.parametrize("agent", WALLED)
@pytest.mark.core
async def test_write_has_a_shell_and_the_conversation_goes_on_inside_and_outside(yard: Yard) -> None:
    """In a home that has never seen the agent, then in a used one; without `loose`."""
    yard.env.pop("OSTLER_LOOSE", None)
    without_sandbox(yard)
    furnish(yard.folder)
    async with yard.ostler(OSTLER_WALLS="required") as o:
        live = await yard.session(o, access="write")
        envelope, events = await talk(o, live, "palomino [[shell:sh work.sh]]")
        assert envelope.ok and envelope.denied == (), (envelope, events)
        assert (yard.folder / "done.txt").exists(), [e.output for e in events if isinstance(e, ToolEnded)]
        assert [e.text for e in events if isinstance(e, Notice) and e.code != "lingered"] == []
        envelope, events = await talk(o, live, "[[shell:echo x > asked.txt]]", transport="dialog")
        assert envelope.ok and envelope.denied == (), (envelope, events)
        assert (yard.folder / "asked.txt").exists() and [e for e in events if isinstance(e, Asked)]
        assert any("palomino" in x.text for x in yard.model.asked[-2:])
        await o.dialogs.close(live.id)
        envelope, _ = await talk(o, live, "which word was it?", access="full")
        assert envelope.ok and "palomino" in yard.model.asked[-1].text, envelope
    assert os.listdir(o.store.folder / "tmp") == []


def with_broken_sandbox(yard: Yard) -> Path:
    """A machine that has bwrap and socat, and lets nobody make a user namespace; where bwrap notes its starts."""
    programs, started = yard.home.parent / "bin", yard.home.parent / "bwrap-started"
    programs.mkdir()
    (programs / "bwrap").write_text(
        f"#!/bin/sh\necho x >> {started}\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
    )
    (programs / "bwrap").chmod(0o755)
    (programs / "socat").symlink_to("/bin/true")
    yard.env["PATH"] = f"{programs}:{yard.env['PATH']}"
    return started


@pytest.mark.parametrize("transport", ["pipe", "dialog"])
@pytest.mark.parametrize("agent", ["claude"])
async def test_a_wall_takes_over_where_its_own_sandbox_does_not_work(yard: Yard, transport: Any) -> None:
    started, outside = with_broken_sandbox(yard), yard.home / "outside.txt"
    async with yard.ostler() as o:
        live = await yard.session(o, access="write")
        prompt = f"[[shell:echo in > inside.txt; echo out > {outside}]]"
        envelope, events = await talk(o, live, prompt, transport=transport)
        assert envelope.ok, (envelope, events)
        assert (yard.folder / "inside.txt").exists() and not outside.exists(), events
        (doctor,) = await o.doctor(["claude"])
        assert (doctor.kept["write"].by, doctor.sandbox) == ("wall", "broken"), doctor
    assert started.exists()


@pytest.mark.parametrize("agent", ["claude"])
async def test_without_walls_a_sandbox_that_does_not_work_leaves_it_without_a_shell(yard: Yard) -> None:
    with_broken_sandbox(yard)
    async with yard.ostler(OSTLER_WALLS="off") as o:
        live = await yard.session(o, access="write")
        _, events = await talk(o, live, "[[shell:echo in > inside.txt]]")
    assert not (yard.folder / "inside.txt").exists()
    assert any("bwrap" in e.text for e in events if isinstance(e, Notice)), events


def claude_login(yard: Yard, ends_in: float) -> Path:
    """A login of a subscription, as claude keeps it."""
    yard.env.pop("ANTHROPIC_API_KEY")
    file = yard.home / ".claude" / ".credentials.json"
    file.parent.mkdir(exist_ok=True)
    login = {
        "accessToken": "access-0",
        "refreshToken": "refresh-0",
        "expiresAt": int((time.time() + ends_in) * 1000),
        "scopes": ["user:inference", "user:profile"],
        "subscriptionType": "max",
    }
    file.write_text(json.dumps({"claudeAiOauth": login}))
    file.chmod(0o600)
    return file


@pytest.mark.parametrize(("ends_in", "renews"), [(60, True), (3600, True), (60, False)])
@pytest.mark.parametrize("agent", ["claude"])
@pytest.mark.core
async def test_a_login_that_is_about_to_end_is_renewed_before_the_turn_and_kept(
    yard: Yard, ends_in: int, renews: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never behind the wall, where it could not be kept: each refresh token is good once."""
    agent, file = AGENTS["claude"], claude_login(yard, ends_in)
    assert agent.state is not None
    if not renews:  # as for one that ends while the turn runs
        state = structs.replace(agent.state, renew=())
        monkeypatch.setattr(
            importlib.import_module("ostler.agents.claude.agent"), "AGENT", structs.replace(agent, state=state)
        )
    with token_server(yard.home.parent) as (tokens, env):
        yard.env |= env
        envelope, _ = await yard.turn("hello", access="read")
    kept = json.loads(file.read_text())["claudeAiOauth"]["refreshToken"]
    assert (kept, tokens.refused) == (tokens.good, 0), tokens.heard
    assert tokens.renewals == (1 if ends_in == 60 and renews else 0)
    assert envelope.ok, envelope


@pytest.mark.parametrize("agent", ["qwen"])
@pytest.mark.core
async def test_a_login_that_is_renewed_behind_the_wall_is_brought_back(yard: Yard) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"):
        yard.env.pop(name)
    settings = yard.home / ".qwen" / "settings.json"
    known = json.loads(settings.read_text())
    settings.write_text(json.dumps({**known, "security": {"auth": {"selectedType": "qwen-oauth"}}}))
    file = yard.home / ".qwen" / "oauth_creds.json"
    login = {"access_token": "access-0", "refresh_token": "refresh-0", "token_type": "Bearer", "expiry_date": 1000}
    file.write_text(json.dumps({**login, "resource_url": "portal.qwen.ai"}))
    with token_server(yard.home.parent) as (tokens, env):
        yard.env |= env
        envelope, _ = await yard.turn("hello", access="read", limits=Limits(retry=2.0, first_record=40.0, idle=40.0))
    assert tokens.renewals >= 1, (tokens.heard, envelope)
    assert (json.loads(file.read_text())["refresh_token"], tokens.refused) == (tokens.good, 0)


@pytest.mark.parametrize("agent", ["gemini"])
async def test_a_login_with_google_that_is_renewed_behind_the_wall_is_brought_back(yard: Yard) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"):
        yard.env.pop(name)
    settings = yard.home / ".gemini" / "settings.json"
    known = json.loads(settings.read_text())
    settings.write_text(json.dumps({**known, "security": {"auth": {"selectedType": "oauth-personal"}}}))
    file = yard.home / ".gemini" / "oauth_creds.json"
    login = {"access_token": "access-0", "refresh_token": "refresh-0", "token_type": "Bearer", "expiry_date": 1000}
    file.write_text(json.dumps({**login, "scope": "openid"}))
    with token_server(yard.home.parent) as (tokens, env):
        yard.env |= env
        envelope, _ = await yard.turn("hello", access="read", limits=Limits(retry=2.0, first_record=120.0, idle=120.0))
    kept = json.loads(file.read_text())
    assert tokens.renewals >= 1, (tokens.heard, envelope)
    assert (kept["access_token"], tokens.refused) == (f"access-{tokens.renewals}", 0), (kept, tokens.heard)
    assert kept["expiry_date"] > time.time() * 1000


@pytest.mark.parametrize("agent", ["opencode"])
async def test_a_login_that_is_renewed_behind_the_wall_is_changed_in_place(yard: Yard) -> None:
    config = yard.home / ".config" / "opencode" / "opencode.json"
    models = {"gpt-5.4": {"name": "GPT"}}
    known = {**json.loads(config.read_text()), "model": "openai/gpt-5.4", "provider": {"openai": {"models": models}}}
    config.write_text(json.dumps(known))
    file = yard.home / ".local" / "share" / "opencode" / "auth.json"
    file.parent.mkdir(parents=True)
    login = {"type": "oauth", "refresh": "refresh-0", "access": "access-0", "expires": 1000, "accountId": "an-account"}
    file.write_text(json.dumps({"openai": login}))
    file.chmod(0o600)
    with token_server(yard.home.parent) as (tokens, env):
        yard.env |= env
        envelope, _ = await yard.turn("hello", access="read", limits=Limits(retry=2.0, first_record=120.0, idle=120.0))
    kept = json.loads(file.read_text())["openai"]
    assert tokens.renewals >= 1, (tokens.heard, envelope)
    assert (kept["refresh"], tokens.refused) == (tokens.good, 0), (kept, tokens.heard)
