"""The tmux servers of a process, and what becomes of their panes when a client is lost."""

import os
import subprocess
from pathlib import Path

import pytest

from needs import require
from ostler.errors import OstlerError
from ostler.process.tmux import TmuxClient
from ostler.work.panes.servers import TmuxServers


class _Joined:
    """Stands for a pane: one that has ended cannot be joined again."""

    def __init__(self, id: str, ended: bool = False) -> None:
        self.id, self.ended, self.client = id, ended, None

    async def rejoin(self, client: TmuxClient) -> None:
        if self.ended:
            raise OstlerError("not_found", "tmux refused `capture-pane`: can't find pane")
        self.client = client


async def test_a_pane_that_has_ended_keeps_no_other_from_being_joined_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    require("tmux")
    servers = TmuxServers(tmp_path, os.environ)
    place = servers.own(servers.program())
    client = await servers.client(place, make=True)
    try:
        gone, there = _Joined("%8", ended=True), _Joined("%9")
        await servers._rejoin(place, [gone, there])  # type: ignore[list-item]
        assert (gone.client, there.client) == (None, client)
        assert "pane %8 cannot be joined again: tmux refused `capture-pane`" in caplog.text
    finally:
        await client.command("kill-server")
        await servers.close()


async def test_panes_whose_server_is_gone_are_told_of_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    require("tmux")
    servers = TmuxServers(tmp_path, os.environ)
    await servers._rejoin(servers.own(servers.program()), [_Joined("%8")])  # type: ignore[list-item]
    assert "panes cannot be joined again (1): " in caplog.text


async def test_a_pane_is_made_though_the_server_is_just_ending(tmp_path: Path) -> None:
    """It ends with its last pane, and whoever makes another one a moment later may not know of that yet."""
    require("tmux")
    servers = TmuxServers(tmp_path, os.environ)
    place = servers.own(servers.program())
    client = await servers.client(place, make=True)
    subprocess.run(place.argv("kill-server"), cwd=place.folder, check=True)
    assert client.alive  # as far as anybody has been told
    try:
        made = await servers.make(place, lambda c: c.command("new-window", "-d", "-P", "-F", "#{pane_id}", "cat"))
        other = await servers.client(place, make=False)
        assert other is not client and made[0] in await other.command("list-panes", "-a", "-F", "#{pane_id}")
    finally:
        await other.command("kill-server")
        await servers.close()
