"""Agents of other packages: really installed entry points, good, broken and slow ones."""

import asyncio
import importlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostler.agents import AGENTS
from ostler.errors import OstlerError
from ostler.settings import Settings
from ostler.work import plug_ins as module
from ostler.work.known_agents import agents_of, find_agent
from ostler.work.plug_ins import plug_ins
from waiting import until
from work.scripted import Stable, collect

GOOD = """
from msgspec.structs import replace
from ostler.agents import AGENTS
AGENT = replace(AGENTS["script"], name="stranger", title="A stranger", models=("strange-*",))
TAKEN = replace(AGENTS["script"], name="claude")
NO_AGENT = 42
"""
POINTS = {
    "stranger": "stranger:AGENT",
    "taken": "stranger:TAKEN",
    "twice": "stranger:AGENT",
    "number": "stranger:NO_AGENT",
    "gone": "stranger:GONE",
    "raises": "raising",
    "exits": "exiting",
}


def install(folder: Path, **points: str) -> None:
    """A package as an installer leaves it."""
    folder.mkdir(exist_ok=True)
    (folder / "stranger.py").write_text(GOOD)
    (folder / "raising.py").write_text("raise RuntimeError('not today')\n")
    (folder / "exiting.py").write_text("import sys\nsys.exit('bye')\n")
    (folder / "waiting.py").write_text(
        "import os\nwith open(os.environ['GATE']) as gate:\n    gate.read()\nfrom stranger import AGENT\n"
    )
    info = folder / "stranger-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    lines = [f"{name} = {value}\n" for name, value in points.items()]
    (info / "entry_points.txt").write_text("".join(["[ostler.agents]\n", *lines]))
    importlib.invalidate_caches()  # another thread's import may have looked here a moment ago, and found less


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path of this process, in which no plug-in has been looked for yet."""
    (tmp_path / "site").mkdir()  # a folder that is not there when something is imported is never looked into again
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(module, "_loaded", None)
    yield tmp_path / "site"
    for name in ("stranger", "raising", "exiting", "waiting"):
        sys.modules.pop(name, None)


def test_each_plug_in_is_an_agent_or_a_problem(site: Path) -> None:
    install(site, **POINTS)
    before = dict(AGENTS)
    found, model = find_agent(Settings(), "strange-1")
    assert (found.name, model) == ("stranger", "strange-1")
    assert list(agents_of(Settings())) == [*before, "stranger"] and dict(AGENTS) == before
    problems = plug_ins().problems
    assert {name: problems[name] for name in ("taken", "twice", "number", "raises", "exits")} == {
        "taken": "there is an agent named 'claude' already",
        "twice": "there is an agent named 'stranger' already",
        "number": "stranger:NO_AGENT is not an ostler.agents.Agent",
        "raises": "raising cannot be loaded (RuntimeError: not today)",
        "exits": "exiting cannot be loaded (SystemExit: bye)",
    }
    assert set(problems) == {"taken", "twice", "number", "gone", "raises", "exits"}
    assert problems["gone"].startswith("stranger:GONE cannot be loaded (AttributeError")


LOOKED = """
import sys
sys.path.append(sys.argv[1])
from ostler.work.plug_ins import plug_ins
print(*plug_ins().agents, "asked" if "importlib.metadata" in sys.modules else "not asked")
"""


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("none", "not asked"),
        ("other", "not asked"),
        ("dist-info", "stranger asked"),
        ("egg-info", "stranger asked"),
        ("egg", "stranger asked"),
        ("archive", "stranger asked"),
    ],
)
def test_the_packages_are_asked_for_only_where_one_names_ostler(tmp_path: Path, kind: str, found: str) -> None:
    """However it is installed: importlib.metadata finds it, so it must be asked."""
    folder = tmp_path / ("stranger-1.0.egg" if kind == "egg" else "packages")
    folder.mkdir()
    if kind != "none":
        install(folder, stranger="stranger:AGENT")
    info, path = folder / "stranger-1.0.dist-info", str(folder)
    if kind == "other":
        (info / "entry_points.txt").write_text("[console_scripts]\nstranger = stranger:main\n")
    elif kind == "egg-info":
        (info / "METADATA").rename(info / "PKG-INFO")
        info.rename(folder / "stranger-1.0.egg-info")
    elif kind == "egg":
        (info / "METADATA").rename(info / "PKG-INFO")
        info.rename(folder / "EGG-INFO")
    elif kind == "archive":
        path = shutil.make_archive(str(tmp_path / "archive"), "zip", folder)
    ran = subprocess.run([sys.executable, "-c", LOOKED, path], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{found}\n"


def test_an_import_that_hangs_keeps_nobody_waiting(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    monkeypatch.setenv("GATE", str(gate))
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    install(site, hangs="waiting:AGENT")
    try:
        assert plug_ins().agents == {}
        assert plug_ins().problems == {"hangs": "waiting:AGENT did not load within 0.2 s"}
        assert find_agent(Settings(), "claude")[0] is AGENTS["claude"]
        with pytest.raises(OstlerError) as caught:
            find_agent(Settings(), "stranger")
        assert caught.value.hint.endswith("The plug-in 'hangs': waiting:AGENT did not load within 0.2 s")
    finally:
        gate.open("w").close()
        for thread in threading.enumerate():
            if thread.name == "ostler-plug-in-hangs":
                thread.join()  # it imports to its end: not while the next test imports the same names


async def test_a_server_waits_for_them_before_it_serves_and_not_on_its_event_loop(
    site: Path, stable: Stable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    monkeypatch.setenv("GATE", str(gate))
    install(site, waits="waiting:AGENT")
    serving, leave = asyncio.Event(), asyncio.Event()

    async def serve() -> None:
        async with stable.ostler(role="up"):
            serving.set()
            await leave.wait()

    server = asyncio.create_task(serve())
    # While the import hangs this very loop goes on, and nobody is served by half of the agents.
    await until(lambda: any(thread.name == "ostler-plug-in-waits" for thread in threading.enumerate()))
    assert not serving.is_set()
    await asyncio.to_thread(lambda: gate.open("w").close())
    async with asyncio.timeout(60):
        await serving.wait()
    assert module._loaded is not None and list(module._loaded.agents) == ["stranger"]
    leave.set()
    await server


def test_a_slow_import_is_used_and_told(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW", 0.0)
    install(site, stranger="stranger:AGENT")
    assert list(plug_ins().agents) == ["stranger"], plug_ins()
    assert plug_ins().problems["stranger"].startswith("stranger:AGENT took ")


def test_agents_that_come_with_ostler_need_no_plug_in(site: Path) -> None:
    install(site, raises="raising")
    assert find_agent(Settings(), "claude")[0] is AGENTS["claude"]
    assert find_agent(Settings(acp={"mine": ("x",)}), "mine")[0].name == "mine"
    assert module._loaded is None and "raising" not in sys.modules


async def test_rules_about_known_tools_need_no_plug_in(site: Path, stable: Stable) -> None:
    install(site, stranger="stranger:AGENT")
    config = stable.home / ".config" / "ostler" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[[asks]]\nanswer = "deny"\ntool = "Bash"\n')
    async with stable.ostler():
        assert module._loaded is None
    config.write_text('[[asks]]\nanswer = "deny"\nagent = "stranger"\ntool = "sh"\n')
    with pytest.raises(OstlerError, match="stranger has no tool 'sh'"):
        async with stable.ostler():
            pass
    assert module._loaded is not None


def test_the_commands_list_plug_ins_and_tell_what_is_wrong(stable: Stable, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, stranger="stranger:AGENT", raises="raising", number="stranger:NO_AGENT")
    path = {"PYTHONPATH": str(site)}
    raising = "The plug-in 'raises': raising cannot be loaded (RuntimeError: not today)"
    number = "The plug-in 'number': stranger:NO_AGENT is not an ostler.agents.Agent"
    for command in (["agents"], ["doctor"], ["doctor", "stranger"]):
        out, err = stable.cli(*command, **path).communicate()
        assert "stranger" in out and f"! {raising}" in out and f"! {number}" in out, err
    out, err = stable.cli("agents", "--json", **path).communicate()
    assert "stranger" in [report["name"] for report in json.loads(out)] and raising in err
    out, err = stable.cli("run", "stranger-2", "hello", **path).communicate()
    assert "no agent or model is called 'stranger-2'" in err and raising in err and "Did you mean stranger?" in err


def test_a_session_of_a_plug_in_is_resumed_by_its_id_in_another_process(stable: Stable, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, stranger="stranger:AGENT")
    env = {"PYTHONPATH": str(site)}
    first = stable.cli("run", "stranger", "[[say:one]]", "--json", **env)
    out, err = first.communicate()
    assert first.returncode == 0, err
    session = json.loads(out)["session"]
    again = stable.cli("run", "--session", session, "[[say:two]]", "--json", **env)
    out, err = again.communicate()
    assert again.returncode == 0, err
    assert (json.loads(out)["text"], json.loads(out)["agent"]) == ("two", "stranger")
    for command in (["run", "--session", session, "three"], ["fork", session]):
        gone = stable.cli(*command)
        _, err = gone.communicate()
        assert gone.returncode != 0 and "the agent 'stranger' no longer exists" in err and "Traceback" not in err


async def test_agents_of_the_settings_belong_to_one_ostler(stable: Stable, tmp_path: Path) -> None:
    config = stable.home / ".config" / "ostler" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[acp]\nmine = ["one"]\n')
    async with stable.ostler(OSTLER_ONLY="") as one:
        assert "mine" in {report.name for report in await one.doctor()}
        config.write_text('[acp]\nmine = ["two"]\nyours = ["three"]\n')
        async with stable.ostler(OSTLER_ONLY="") as two:
            config.write_text("")
            async with stable.ostler(OSTLER_ONLY="") as none:
                assert {"mine", "yours"} & {report.name for report in await none.doctor()} == set()
                with pytest.raises(OstlerError) as caught:
                    await none.session("mine", folder=str(stable.folder))
                assert caught.value.kind == "not_found"
                for ostler, program in ((one, "one"), (two, "two")):
                    live = await ostler.session("mine", folder=str(stable.folder), access="full")
                    with pytest.raises(OstlerError, match=f"`{program}`"):
                        await collect(live, "hello")
                assert "yours" not in one.setup.agents and "mine" not in AGENTS


async def test_agents_of_the_settings_cannot_take_the_name_of_another(stable: Stable) -> None:
    config = stable.home / ".config" / "ostler" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[acp]\nclaude = ["claude-agent-acp"]\n')
    with pytest.raises(OstlerError) as caught:
        async with stable.ostler():
            pass
    assert caught.value.kind == "exists"
