"""A secret that a program prints with pauses stands whole nowhere: screen, text, viewers, recording."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.terminal.cast import read_cast
from server.conftest import Yard
from server.watching import watching

SECRET = "correct-horse-battery-staple"  # of which nine characters may be seen
ROOM = len(SECRET) // 3
PROGRAM = 'stty -echo; printf "it is "; for piece in "$@"; do printf %s "$piece"; read x; done; echo .'


@pytest.mark.parametrize(
    "cut",
    [lambda text: [text[:15], text[15:]], lambda text: [text[:4], text[4:20], text[20:]], list],
    ids=["two writes", "three writes", "byte by byte"],
)
async def test_a_secret_printed_with_pauses_stands_whole_nowhere(yard: Yard, cut: Callable[[str], list[str]]) -> None:
    session = (await (await yard.ostler.session("script", folder=str(yard.folder))).keep()).id
    pieces = cut(SECRET)
    argv = ["sh", "-c", PROGRAM, "sh", *pieces]
    terminal = (await yard.ostler.terminals.open(session, argv, env={"MY_API_KEY": SECRET})).row.id
    seen: list[str] = []
    async with watching(f"{yard.ws}/api/terminals/{terminal}/ws", yard.bearer("type")) as viewer:
        await viewer.until(lambda viewer: viewer.shows("it is "))
        await viewer.take()
        for number in range(len(pieces)):
            length = len("it is " + "".join(pieces[: number + 1]))
            await viewer.until(lambda viewer, length=length: len(viewer.rows[0]) >= length)
            seen += [*viewer.rows, (await yard.client.get(f"/api/terminals/{terminal}/text")).text]
            seen.append((await yard.client.get(f"/api/terminals/{terminal}/snapshot?history=true")).text)
            await viewer.type("\n")
        await viewer.until(lambda viewer: viewer.gone)
        seen += [bytes(viewer.output).decode(), *viewer.rows]
        last = viewer.rows[0]
    stars = len(last.rstrip(".")) - len(last.rstrip(".").rstrip("*"))
    assert last == f"it is {SECRET[: len(SECRET) - stars]}{'*' * stars}."
    assert len(SECRET) - stars <= ROOM
    assert not any(SECRET[: ROOM + 1] in text for text in seen)
    await assert_kept_without(yard, terminal)


async def assert_kept_without(yard: Yard, terminal: str) -> None:
    """What is kept had time to wait: nothing of the secret is in it."""
    row = yard.ostler.terminals.find(terminal)
    recorded = "".join(event.data for event in read_cast(row.recording).events() if event.kind == "o")
    masked = f"it is {'*' * len(SECRET)}."
    assert recorded.strip() == masked
    served = (await yard.client.get(f"/api/terminals/{terminal}/recording")).text
    assert SECRET[:4] not in served
    played = subprocess.run(
        [sys.executable, "-m", "ostler", "play", row.recording, "--idle-limit", "0.001"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={"HOME": str(Path(yard.folder)), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
    )
    assert played.stdout.strip() == masked, played.stderr
    snapshot = (await yard.client.get(f"/api/terminals/{terminal}/snapshot?history=true")).text
    assert SECRET[: ROOM + 1] not in snapshot
    assert SECRET[: ROOM + 1] not in (await yard.client.get(f"/api/terminals/{terminal}/text")).text


async def test_a_prompt_that_begins_like_a_secret_does_not_hang(yard: Yard) -> None:
    session = (await (await yard.ostler.session("script", folder=str(yard.folder))).keep()).id
    argv = ["sh", "-c", "printf 'correct? '; printf c; read x; echo $x"]
    terminal = (await yard.ostler.terminals.open(session, argv, env={"MY_API_KEY": SECRET})).row.id
    async with watching(f"{yard.ws}/api/terminals/{terminal}/ws", yard.bearer("type")) as viewer:
        await viewer.until(lambda viewer: viewer.shows("correct? c"))
        await viewer.take()
        await viewer.type("corr")
        await viewer.until(lambda viewer: viewer.shows("correct? ccorr"))
        await viewer.type("\n")
        await viewer.until(lambda viewer: viewer.gone)
