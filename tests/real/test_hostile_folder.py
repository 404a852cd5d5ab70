"""A hostile repository, opened with each real CLI: nothing that it brings runs, no key leaves, until it is trusted.

Each canary is a command, plugin or server of the repository that leaves a file; the listener stands for an address
that it names for the model, for telemetry or as a proxy. What the repository *tells* the agent stays in force.
"""

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from needs import require
from ostler.errors import OstlerError
from ostler.model import AnyEvent, Asked, Envelope, Notice
from ostler.testing.model import ScriptedModel
from ostler.work.dialogs.asks import AskAnswer
from real.hostile import Hostile, skill_with_hook
from real.yard import AGENTS, Yard, each

pytestmark = pytest.mark.timeout(300)

# What each agent is told by the files of a repository, at its root and in the folder of the turn.
TOLD = {
    "claude": ("CLAUDE.md",),
    "codex": ("AGENTS.md",),
    "gemini": ("GEMINI.md",),
    "qwen": ("QWEN.md", "AGENTS.md"),
}
TOLD |= {"claude-agent-acp": TOLD["claude"], "gemini-acp": TOLD["gemini"], "qwen-acp": TOLD["qwen"]}
# Those that cannot be told to leave it out are refused. qwen can where it asks; gemini, but for `.env` files.
REFUSED = ("opencode", "copilot", "codex-acp")
# What runs once the folder is trusted: at least this, of all that is armed.
RUNS = {
    "claude": {"root-claude-local-apiKeyHelper", "sub-claude-hook", "sub-claude-skill", "sub-mcp.json"},
    "codex": {"sub-codex-mcp"},
    "gemini": {"sub-gemini-hook", "sub-gemini-mcp", "sub-gemini-discovery"},
    "qwen": {"sub-qwen-hook"},
    "opencode": {"sub-opencode-mcp"},
    "copilot": {"root-copilot-hook", "root-claude-hook", "sub-mcp.json"},
}
CALLED_HOME = ("claude", "gemini", "qwen", "opencode")  # to an address of the repository

ACP = ("claude-agent-acp", "codex-acp", "gemini-acp", "qwen-acp")
CASES = [
    *(
        (agent, transport, access)
        for agent in AGENTS
        for transport in ("pipe", "dialog")
        for access in ("read", "write", "full")
    ),
    *((agent, "dialog", "full") for agent in ACP),
]
PROMPT = '[[tool:Skill:{"skill":"evil"}]][[write:made.txt]] go on'


@contextlib.contextmanager
def opened(yard: Yard) -> Iterator[tuple[Hostile, ScriptedModel]]:
    """The yard's folder becomes a folder of a hostile repository, which is hostile by itself too."""
    with ScriptedModel(scenario="text") as listener:
        hostile = Hostile(yard.home.parent / "canaries", listener.url)
        hostile.arm(yard.folder, "root")
        sub = yard.folder / "sub"
        sub.mkdir()
        hostile.arm(sub, "sub")
        yard.folder = sub
        yield hostile, listener


async def turn(yard: Yard, transport: Any, access: Any, prompt: str = PROMPT) -> tuple[Envelope, list[AnyEvent]]:
    """One turn; what it asks for is allowed."""
    events: list[AnyEvent] = []
    async with yard.ostler() as o:
        live = await yard.session(o, access=access)
        async for event in live.run(prompt, transport=transport):
            events.append(event)
            if isinstance(event, Asked) and event.id in {ask.id for ask in o.open_asks(event.turn)}:
                await o.answer(live.id, AskAnswer(ask=event.id, option="allow", by="a person"))
    assert live.last is not None
    return live.last, events


def without_env(yard: Yard) -> None:
    """Takes away the files that gemini reads after all else, and is refused for."""
    for folder in (yard.folder, yard.folder.parent):
        for name in (".env", ".gemini/.env"):
            (folder / name).unlink()


def without_proxies(yard: Yard) -> None:
    """Takes them out of the `.env` files: no request would get through to the address that they name."""
    for path in (env for folder in (yard.folder, yard.folder.parent) for env in folder.glob("**/.env")):
        kept = [line for line in path.read_text().splitlines() if "PROXY" not in line.upper()]
        path.write_text("\n".join(kept))


def without_plugins(yard: Yard) -> None:
    """Before its first plugin opencode installs packages, and waits long for a network that is not there."""
    for folder in (yard.folder, yard.folder.parent):
        shutil.rmtree(folder / ".opencode")
        config = json.loads((folder / "opencode.json").read_text())
        (folder / "opencode.json").write_text(json.dumps({**config, "plugin": []}))


def trusted_by_the_cli(yard: Yard) -> None:
    """The user has told the CLI itself, some day, that the repository is trusted."""
    root = str(yard.folder.parent)
    both = (root, str(yard.folder))
    files: dict[str, Any] = {
        ".claude.json": {"projects": {folder: {"hasTrustDialogAccepted": True} for folder in both}},
        ".gemini/trustedFolders.json": dict.fromkeys(both, "TRUST_FOLDER"),
        ".qwen/trustedFolders.json": dict.fromkeys(both, "TRUST_FOLDER"),
        ".copilot/config.json": {"trusted_folders": ["/", *both], "trustedFolders": ["/", *both]},
    }
    for name, content in files.items():
        path = yard.home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    for name in (".gemini", ".qwen"):  # and to ask for no trust at all
        if (path := yard.home / name / "settings.json").exists():
            settings = json.loads(path.read_text())
            settings.setdefault("security", {})["folderTrust"] = {"enabled": False}
            path.write_text(json.dumps(settings))
    if (config := yard.home / ".codex" / "config.toml").exists():
        config.write_text(config.read_text() + "".join(f'[projects."{f}"]\ntrust_level = "trusted"\n' for f in both))


def config_of(yard: Yard) -> str:
    config = yard.home / ".codex" / "config.toml"
    return config.read_text() if config.exists() else ""


@pytest.mark.parametrize(("agent", "transport", "access"), CASES)
@pytest.mark.core
async def test_nothing_counts_that_is_not_trusted(yard: Yard, transport: str, access: str) -> None:
    with opened(yard) as (hostile, listener):
        if access == "read":
            trusted_by_the_cli(yard)
        if (yard.agent, transport) == ("gemini", "pipe"):
            with pytest.raises(OstlerError, match=r"gemini would load settings from"):
                await turn(yard, transport, access)
            without_env(yard)
        before = config_of(yard)
        if yard.agent in REFUSED or (yard.agent == "qwen" and transport == "pipe" and access != "read"):
            with pytest.raises(OstlerError) as caught:
                await turn(yard, transport, access)
            assert caught.value.kind == "denied" and "`ostler trust`" in caught.value.hint
            assert yard.model.requests == []
        else:
            envelope, events = await turn(yard, transport, access)
            assert envelope.ok, envelope
            assert yard.model.asked
            told = "\n".join(request.text for request in yard.model.asked)
            for place in ("root", "sub"):
                for name in TOLD[yard.agent]:
                    assert f"The word of {place} {name} is oats." in told
            assert [e for e in events if isinstance(e, Notice) and "ostler trust" in e.text]
        assert hostile.fired() == []
        assert listener.requests == []
        assert config_of(yard) == before  # codex notes there which folders it trusts


ADDRESSES = ("GOOGLE_GEMINI_BASE_URL", "OPENAI_BASE_URL")
WITH_ENV_FILES = [("gemini", "dialog"), ("gemini-acp", "dialog"), *((a, t) for a, t, _ in CASES if a == "qwen")]


@pytest.fixture
def no_address(yard: Yard) -> None:
    """The user has a key and no address: where one is set, `.env` files would not set another one anyway."""
    require("loopback")  # the key must not leave this machine
    for name in ADDRESSES:
        yard.env.pop(name, None)


@pytest.mark.parametrize(("agent", "transport"), list(dict.fromkeys(WITH_ENV_FILES)))
@pytest.mark.core
async def test_a_key_goes_to_no_address_of_the_folder(yard: Yard, no_address: None, transport: str) -> None:
    with opened(yard) as (hostile, listener):
        envelope, _ = await turn(yard, transport, "read")
        assert not envelope.ok  # its own provider cannot be reached from here
        assert (hostile.fired(), listener.requests) == ([], [])


@pytest.mark.parametrize("agent", ["gemini", "qwen"])
@pytest.mark.core
async def test_a_key_goes_to_an_address_of_a_trusted_folder(yard: Yard, no_address: None) -> None:
    with opened(yard) as (_, listener):
        without_proxies(yard)
        yard.trust()
        await turn(yard, "dialog", "read")
        assert [request for request in listener.requests if request.credentials]


@pytest.mark.parametrize("agent", ["gemini", "gemini-acp"])
@pytest.mark.core
async def test_gemini_takes_no_key_of_the_folder(yard: Yard) -> None:
    del yard.env["GEMINI_API_KEY"]
    with opened(yard) as (hostile, _):
        (yard.folder / ".env").write_text("GEMINI_API_KEY=of-the-folder\n")
        with contextlib.suppress(OstlerError):  # it may say so before the turn begins
            envelope, _ = await turn(yard, "dialog", "read")
            assert not envelope.ok, envelope
        assert (hostile.fired(), yard.model.requests) == ([], [])


@pytest.mark.parametrize(("agent", "transport"), [("qwen", "pipe"), ("qwen", "dialog"), ("qwen-acp", "dialog")])
async def test_instructions_that_are_too_long_for_an_argument_stay_in_force(yard: Yard, transport: Any) -> None:
    with opened(yard) as (hostile, _):
        words = "Mind the @horses. " * 6_500  # more than an argument takes, less than is handed over
        (yard.folder / "AGENTS.md").write_text(f"{words}\nThe word at the end is oats.\n")
        envelope, events = await turn(yard, transport, "read")
        assert envelope.ok, envelope
        assert any("The word at the end is oats." in request.text for request in yard.model.asked)
        assert [e for e in events if isinstance(e, Notice) and e.text.startswith("the system prompt was put before")]
        assert hostile.fired() == []


@each(AGENTS, core=("claude", "codex", "opencode"))
async def test_what_a_trusted_folder_brings_counts(yard: Yard) -> None:
    with opened(yard) as (hostile, listener):
        if yard.agent in ("gemini", "qwen"):
            for folder in (yard.folder, yard.folder.parent):  # else no request would reach the model at all
                for name in (".env", f".{yard.agent}/.env"):
                    (folder / name).unlink()
        if yard.agent == "opencode":
            without_plugins(yard)
        yard.trust()
        yard.env["OSTLER_WALLS"] = "off"  # behind one, what runs could not leave its traces
        before = config_of(yard)
        envelope, events = await turn(yard, "pipe", "full" if yard.agent in ("claude", "copilot") else "read")
        assert envelope.ok, envelope
        assert {*hostile.fired()} >= RUNS[yard.agent]
        assert bool(listener.requests) == (yard.agent in CALLED_HOME)
        assert not [e for e in events if isinstance(e, Notice) and "ostler trust" in e.text]
        assert config_of(yard) == before


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("agent", ["qwen", "qwen-acp"])
@pytest.mark.core
async def test_the_hooks_of_a_skill_run_in_a_trusted_folder_alone(yard: Yard, trusted: bool) -> None:
    hostile = Hostile(yard.home.parent / "canaries", "")
    hostile.place = "root"
    skill = yard.folder / ".agents/skills/evil/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(skill_with_hook(hostile))
    if trusted:
        yard.trust()
    prompt = '[[tool:skill:{"skill":"evil"}]][[shell:touch made.txt]] go on'
    envelope, events = await turn(yard, "dialog", "full", prompt)
    assert envelope.ok and (yard.folder / "made.txt").exists(), envelope
    assert hostile.fired() == (["root-skill-hook"] if trusted else [])
    assert bool([e for e in events if isinstance(e, Notice) and "ostler trust" in e.text]) is not trusted


@pytest.mark.parametrize("transport", ["pipe", "dialog"])
@pytest.mark.parametrize("agent", ["codex"])
@pytest.mark.core
async def test_a_home_folder_in_git_that_codex_trusts_says_nothing_of_folders_in_it(yard: Yard, transport: str) -> None:
    """codex looks for settings up to the git root, and takes the trust of that for each folder on the way."""
    subprocess.run(["git", "init", "-q", str(yard.home)], check=True)
    config = yard.home / ".codex" / "config.toml"
    config.write_text(config.read_text() + f'[projects."{yard.home}"]\ntrust_level = "trusted"\n')
    hostile = Hostile(yard.home.parent / "canaries", "http://127.0.0.1:1")
    hostile.arm(yard.home / "downloaded", "above")
    yard.folder = yard.home / "downloaded" / "sub"
    yard.folder.mkdir()
    envelope, events = await turn(yard, transport, "full")
    assert envelope.ok, envelope
    assert hostile.fired() == []
    assert [e for e in events if isinstance(e, Notice) and "ostler trust" in e.text]


@pytest.mark.parametrize("transport", ["pipe", "dialog"])
@pytest.mark.parametrize("agent", ["codex"])
async def test_codex_does_not_come_to_trust_a_folder_by_working_in_it(yard: Yard, transport: Any) -> None:
    """It notes in the user's config.toml that a folder is trusted once a turn may write there, or names it."""
    with opened(yard) as (hostile, _):
        before, session = config_of(yard), None
        for prompt in ("one", "two"):
            async with yard.ostler() as o:
                live = await (o.session(session=session) if session else yard.session(o, access="write"))
                async for _event in live.run(prompt, transport=transport):
                    pass
                assert live.last is not None and live.last.ok, live.last
                session = live.id
        assert (config_of(yard), hostile.fired()) == (before, [])


@pytest.mark.parametrize("agent", ["opencode", "copilot"])
async def test_those_that_are_refused_run_where_a_folder_only_tells_them_something(yard: Yard) -> None:
    name = "AGENTS.md"
    (yard.folder / name).write_text("The word is oats.")
    envelope, _ = await turn(yard, "dialog", "read")
    assert envelope.ok, envelope
    assert any("The word is oats." in request.text for request in yard.model.asked)


def test_every_file_of_the_repository_that_could_run_something_is_known(tmp_path: Path) -> None:
    """What is armed and counts must be found by the look at the folder, or trust would be for less than it says."""
    from ostler.agents import AGENTS as ADAPTERS
    from ostler.work.project_config import read_project_config

    (tmp_path / "repository" / ".git").mkdir(parents=True)
    Hostile(tmp_path / "canaries", "http://127.0.0.1:1").arm(tmp_path / "repository", "root")
    found = {
        path.removeprefix(f"{tmp_path}/repository/")
        for agent in ADAPTERS.values()
        for path in read_project_config(str(tmp_path / "repository"), agent, "/nonexistent", lambda *_: "").paths
    }
    armed = {str(p.relative_to(tmp_path / "repository")) for p in (tmp_path / "repository").rglob("*") if p.is_file()}
    others = ("market/", "bunfig.toml", "preload.js", "package.json", ".gemini/system.md", "opencode-plugin.js")
    unknown = {path for path in armed if not any(path == name or path.startswith(f"{name}/") for name in found)}
    assert {path for path in unknown if not path.startswith(others) and not path.endswith((".md", "HEAD"))} == set()
