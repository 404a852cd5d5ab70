"""What is shown of a live stream while it is not decided whether it is a secret. Nothing here waits for a time."""

import asyncio

import pytest

from ostler.store import Redactor
from ostler.terminal.mask import Mask

SECRET = b"hunter2-is-not-a-good-one"  # of which eight characters may be seen
TOKEN = b"ghp_16C7e42F292c6912E7710c838347Ae178B4a"
LIMIT = 60


class Watched:
    """A mask, what those who watch saw, and what the file got."""

    def __init__(self, *secrets: bytes) -> None:
        self.seen = self.filed = b""
        self._news = asyncio.Event()
        self.mask = Mask(Redactor([secret.decode() for secret in secrets]), self._see, self._file)

    def _see(self, data: bytes) -> None:
        assert data
        self.seen += data
        self._news.set()

    def _file(self, data: bytes) -> None:
        self.filed += data

    async def until(self, length: int) -> bytes:
        async with asyncio.timeout(LIMIT):
            while len(self.seen) < length:
                self._news.clear()
                await self._news.wait()
        return self.seen


async def test_what_is_decided_at_once_is_shown_at_once() -> None:
    watched = Watched(SECRET)
    for piece in (b"plain, ", SECRET[:9], SECRET[9:], b"."):
        watched.mask.feed(piece)
    assert watched.seen == watched.filed == b"plain, " + b"*" * len(SECRET) + b"."


async def test_a_pause_shows_a_third_at_most_and_the_file_waits() -> None:
    watched = Watched(SECRET)
    watched.mask.feed(b"it is " + SECRET[:12])
    assert await watched.until(18) == b"it is hunter2-****"
    assert watched.filed == b"it is "
    watched.mask.feed(SECRET[12:] + b"!")
    assert watched.seen == b"it is hunter2-" + b"*" * 17 + b"!"
    assert watched.filed == b"it is " + b"*" * 25 + b"!"


@pytest.mark.parametrize("secret", [SECRET, TOKEN, b"aaaaaaaaaaaaaaab"], ids=["known", "shape", "repeats itself"])
async def test_a_secret_that_comes_byte_by_byte_never_stands_whole(secret: bytes) -> None:
    watched = Watched(SECRET, b"aaaaaaaaaaaaaaab")
    for at in range(len(secret)):
        watched.mask.feed(secret[at : at + 1])
        await watched.until(at + 1)
    watched.mask.feed(b"\r\n")
    shown = len(secret) // 3 + 4 * secret.startswith(b"ghp_")
    assert watched.seen.rstrip(b"\r\n").rstrip(b"*") == secret[: len(watched.seen.rstrip(b"\r\n").rstrip(b"*"))]
    assert len(watched.seen.rstrip(b"\r\n").rstrip(b"*")) <= shown
    assert watched.seen.endswith(b"*\r\n") and len(watched.seen) == len(secret) + 2
    assert watched.filed == b"*" * len(secret) + b"\r\n"


async def test_a_prompt_that_begins_like_a_secret_is_shown() -> None:
    watched = Watched(SECRET)
    watched.mask.feed(b"hunter2")
    assert await watched.until(7) == b"hunter2"
    watched.mask.feed(b" > ")
    assert watched.seen == watched.filed == b"hunter2 > "


async def test_what_was_masked_too_early_stays_so_for_those_who_watched() -> None:
    watched = Watched(SECRET)
    watched.mask.feed(b"hunter2-is-not")
    await watched.until(14)
    watched.mask.feed(b" me")
    assert watched.seen == b"hunter2-****** me"
    assert watched.filed == b"hunter2-is-not me"


async def test_settled_it_is_shown_and_what_follows_is_masked_all_the_same() -> None:
    watched = Watched(SECRET)
    watched.mask.feed(SECRET[:-3])
    watched.mask.settle()
    assert watched.seen == SECRET[:-3]
    assert watched.filed == b""
    watched.mask.feed(SECRET[-3:] + b".")
    assert watched.seen == SECRET[:-3] + b"***."
    assert watched.filed == b"*" * len(SECRET) + b"."


async def test_at_the_end_all_is_shown() -> None:
    watched = Watched(SECRET)
    watched.mask.feed(b"the end: " + SECRET[:-3])
    watched.mask.close()
    assert watched.seen == watched.filed == b"the end: " + SECRET[:-3]
