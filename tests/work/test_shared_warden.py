"""The warden that an ostler process shares."""

import errno
import os
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.process import Warden
from ostler.work.shared_warden import SharedWarden


async def test_one_that_could_not_be_started_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine had no room for it: a long-lived server refuses no turn once there is."""
    shared = SharedWarden(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Warden, "_open", full)
        for _ in range(2):
            with pytest.raises(OstlerError) as caught:
                await shared.get()
            assert caught.value.kind == "too_many" and shared.pid() is None
    warden = await shared.get()
    assert shared.pid() == warden.pid and await shared.get() is warden
    await shared.close()


def full(warden: Warden) -> None:
    raise OstlerError("too_many", os.strerror(errno.EAGAIN))
