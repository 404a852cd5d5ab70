"""A program in a tmux pane: its size, and what is typed into it."""

import asyncio
import os
import shutil
import subprocess

import pytest

from needs import require
from ostler.errors import OstlerError
from ostler.process import Size, tree
from ostler.process.pane import Pane, PaneProcess
from ostler.process.tmux import TmuxClient, TmuxPlace


@pytest.fixture
async def place(tmp_path):
    """A server of its own, with nothing of the user's settings."""
    require("tmux")
    (tmp_path / "tmux.conf").write_text("")
    env = {"PATH": os.environ["PATH"], "TERM": "xterm-256color"}
    place = TmuxPlace(
        program=shutil.which("tmux") or "", folder=str(tmp_path), socket="s", session="t", config="tmux.conf", env=env
    )
    yield place
    subprocess.run(place.argv("kill-server"), cwd=tmp_path, capture_output=True, check=False)


@pytest.fixture
async def client(place):
    words = ("new-session", "-A", "-s", place.session, "-x", "120", "-y", "30", "cat")
    client = await TmuxClient.start(place, words, lambda: None)
    await client.command("refresh-client", "-f", "ignore-size")
    yield client
    await client.close()


@pytest.fixture
async def pane(place, client, tmp_path, mark):
    [told] = await client.command("display-message", "-p", "-t", place.session, "#{pane_id} #{pane_pid}")
    id, pid = told.split()
    process = PaneProcess(int(pid), tree.identity(int(pid)) or 0, mark, str(tmp_path))
    pane = Pane(id, client, place, process, Size(120, 30))
    yield pane
    await pane.close()


async def test_of_two_sizes_the_later_one_counts_and_nothing_is_left_after_the_end(pane, until):
    pane.start(lambda _: None)
    before = asyncio.all_tasks()
    pane.resize(100, 25)
    pane.resize(90, 20)
    assert asyncio.all_tasks() == before  # nothing that `close` would not wait for
    await until(lambda: pane.size == Size(90, 20))


async def test_a_change_during_a_look_is_looked_at_next(client, pane, until):
    pane.start(lambda _: None)
    ask, asked = client.command, []

    async def command(*words, **options):
        told = await ask(*words, **options)
        if words[0] == "display-message" and not asked:  # the first look has its answer, and is not over yet
            asked.append(words)
            await ask("resize-window", "-t", pane.id, "-x", "100", "-y", "25")
        return told

    client.command = command
    pane._look()
    await until(lambda: pane.size == Size(100, 25))


async def test_what_could_not_be_typed_is_told_and_the_next_keys_come(pane, until, caplog):
    seen = bytearray()
    pane.start(seen.extend)
    pane.press(("\ud800",))  # nothing of tmux's
    await until(lambda: "typing into pane" in caplog.text)
    with pytest.raises(OstlerError, match="what was typed last did not reach the pane"):
        pane.write(b"lost\n")
    pane.write(b"again\n")
    await until(lambda: seen.count(b"again") == 2)  # as it is typed, and as `cat` says it


async def test_output_that_its_listener_cannot_take_costs_nothing_else(client, pane, until, caplog):
    seen = bytearray()

    def take(data):
        seen.extend(data)
        if b"first" in data:
            raise ValueError("it slipped")

    pane.start(take)
    pane.write(b"first\n")
    await until(lambda: "reading from tmux" in caplog.text and "it slipped" in caplog.text)
    assert await client.command("display-message", "-p", "still here") == ["still here"]
    pane.write(b"second\n")
    await until(lambda: seen.count(b"second") == 2)
    assert client.alive


async def test_what_is_asked_when_a_client_is_closed_is_answered(client, until):
    asked = asyncio.create_task(client.command("display-message", "-p", "x"))
    await asyncio.sleep(0)
    await client.close()
    await until(asked.done)
    assert isinstance(asked.exception(), OstlerError | None)
    with pytest.raises(OstlerError, match="the tmux session has ended"):
        await client.command("display-message", "-p", "y")
