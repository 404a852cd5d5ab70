"""A turn has the settings of its folder by every door, also where a command or a program was started elsewhere."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import ostler
from acp_peer import peer_of
from ostler.model import Limits
from ostler.settings import Loaded, Settings
from ostler.store import Store
from ostler.work.folder_settings import FolderSettings, loader
from work.scripted import Stable, collect


def test_what_belongs_to_the_process_is_not_the_folders() -> None:
    process = Settings(home="/state", port=7, access="write")
    there = Settings(home="/elsewhere", port=8, state="project", access="read", limits=Limits(total=1))
    settings = FolderSettings(process, lambda folder: Loaded(settings=there, notices=(folder,)))
    assert settings.of("/f") == Loaded(
        settings=Settings(home="/state", port=7, access="read", limits=Limits(total=1)), notices=("/f",)
    )
    assert FolderSettings(process, None).of("/f") == Loaded(settings=process)


def test_a_file_is_read_anew_and_one_reader_does_not_change_what_the_next_one_gets(tmp_path: Path) -> None:
    load, file = loader({"HOME": str(tmp_path)}), tmp_path / "ostler.toml"
    denied = []
    for settings in ('tools_denied = ["a"]', 'tools_denied = ["b"]', 'tools_denied = ["a"]'):
        file.write_text(settings)
        denied += [load(str(tmp_path)).settings.tools_denied for _ in range(2)]
    assert denied == [("a",), ("a",), ("b",), ("b",), ("a",), ("a",)]


# -- the doors --------------------------------------------------------------------------------------


def by_command(stable: Stable, there: Path) -> str:
    """Begun in its folder, continued from another."""
    begun = stable.cli("run", "script", "[[say:a]]", "--json", "-C", str(there))
    session = str(json.loads(begun.communicate()[0])["session"])
    out, err = stable.cli("run", "--session", session, "[[say:b]]", "--json").communicate()
    assert json.loads(out)["status"] == "ok", err
    return session


def by_python(stable: Stable, there: Path) -> str:
    async def turn() -> str:
        async with ostler.open() as o:
            session = await o.session("script", folder=str(there))
            await collect(session, "[[say:a]]")
            return session.id

    return asyncio.run(turn())


def by_run(stable: Stable, there: Path) -> str:
    first = ostler.run("[[say:a]]", "script", folder=str(there))
    return ostler.run("[[say:b]]", session=first.session).session


def by_acp(stable: Stable, there: Path) -> str:
    async def turn() -> str:
        async with peer_of(stable.folder, "script", initialize={"protocolVersion": 1}, **stable.env) as peer:
            session = str((await peer.call("session/new", cwd=str(there), mcpServers=[]))["sessionId"])
            prompt = [{"type": "text", "text": "[[say:a]]"}]
            await peer.call("session/prompt", sessionId=session, prompt=prompt)
            return session

    return asyncio.run(turn())


@pytest.mark.parametrize("door", [by_command, by_python, by_run, by_acp])
def test_the_settings_of_the_folder_hold(
    stable: Stable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: Callable[[Stable, Path], str]
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "ostler.toml").write_text('tools_denied = ["web"]\naccess = "full"\n[limits]\ntotal = 100\n')
    monkeypatch.chdir(stable.folder)
    for name, value in stable.env.items():
        monkeypatch.setenv(name, value)
    session = door(stable, there)
    with Store.open(str(stable.state)) as store:
        for row in store.turns(session):
            assert (row.turn.tools_denied, row.turn.limits.total, row.turn.access) == (("web",), 100.0, "read")
            [told] = [event for event in store.events(session, turn=row.id) if event.__struct_config__.tag == "notice"]
            assert told.code == "settings" and "access ignored" in told.text


def test_the_command_says_once_what_does_not_count(stable: Stable) -> None:
    (stable.folder / "ostler.toml").write_text('access = "full"\n')
    out, err = stable.cli("run", "script", "[[say:a]]").communicate()
    assert (out + err).count("is not trusted") == 1
    out, err = stable.cli("run", "script", "[[say:a]]", "--events").communicate()
    assert out.count("is not trusted") == 1  # an event like any other


def test_settings_that_are_given_hold_in_every_folder(stable: Stable, monkeypatch: pytest.MonkeyPatch) -> None:
    (stable.folder / "ostler.toml").write_text('tools_denied = ["web"]\n')
    for name, value in stable.env.items():
        monkeypatch.setenv(name, value)
    given = Settings(home=str(stable.state), only="script", tools_denied=("shell",))
    envelope = ostler.run("[[say:a]]", "script", folder=str(stable.folder), settings=given)
    with Store.open(str(stable.state)) as store:
        assert store.turn(envelope.turn).turn.tools_denied == ("shell",)
