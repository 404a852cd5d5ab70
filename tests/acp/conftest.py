from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from acp_peer import Peer, peer_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture
async def peer(folder: Path) -> AsyncIterator[Peer]:
    """A client that has said initialize, with an agent that may write."""
    async with peer_of(folder, "claude", "--access=write", initialize={"protocolVersion": 1}) as peer:
        yield peer
