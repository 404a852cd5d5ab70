"""Turns in panes whose ostler is killed: when, and what the journal says then."""

import subprocess
from typing import Any

from ostler.model import AnyEvent, Asked, Hook, Notice, Text, TurnRow
from ostler.store import Store
from ostler.work import Ostler
from prefork import start_python
from waiting import until
from work.scripted import Stable

# `ostler`, for which the scripted agent is ready when its box is drawn.
IMPATIENT = "from ostler.work.tuis import delivery; delivery.QUIET = 0.3; from ostler.cli import main; main()"


def codes(events: list[AnyEvent]) -> list[str]:
    return [event.code for event in events if isinstance(event, Notice)]


async def the_turn(o: Ostler) -> TurnRow:
    """The one turn, once it has ended."""

    def ended() -> list[TurnRow]:
        return [row for session in o.sessions() for row in o.store.turns(session.id) if row.state == "ended"]

    [row] = await until(ended)
    assert isinstance(row, TurnRow) and row.envelope is not None
    return row


def start_impatient(stable: Stable, *args: str, **env: str) -> "subprocess.Popen[bytes]":
    """`ostler …` that waits for no silence of the scripted agent's screen."""
    environ, quiet = {**stable.env, **env}, subprocess.DEVNULL
    return start_python(IMPATIENT, *args, cwd=stable.folder, env=environ, stdin=quiet, stdout=quiet)


async def kill_when(stable: Stable, happened: "Any", *flags: str, **env: str) -> None:
    """Runs a turn in a process of its own, and kills that with -9 when the journal says that it happened."""
    process = start_impatient(stable, "run", "script", "go", "--transport", "tmux", *flags, **env)

    def so_far() -> bool:
        if not (stable.state / "ostler.db").exists():
            return False
        with Store.open(stable.state) as store:
            return any(happened(store.events(session.id)) for session in store.sessions())

    try:
        await until(so_far)
    finally:
        process.kill()
        process.wait()


def said(text: str) -> "Any":
    """It said that, and the journal has that the prompt was sent, where a receipt is given at all."""

    def so(events: list[AnyEvent]) -> bool:
        sent = received("submitted")(events) or not received("accepted")(events)
        return sent and any(isinstance(event, Text) and event.text == text for event in events)

    return so


def asked(events: list[AnyEvent]) -> bool:
    return any(isinstance(event, Asked) for event in events)


def received(stage: str) -> "Any":
    return lambda events: any(
        isinstance(e, Notice) and e.code == "receipt" and e.text.startswith(stage) for e in events
    )


def texts(events: list[AnyEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Text)]


def hooked(name: str) -> "Any":
    """That hook has come, and the prompt is known to be sent."""

    def so(events: list[AnyEvent]) -> bool:
        return received("submitted")(events) and name in hooks_in(events)

    return so


def hooks_in(events: list[AnyEvent]) -> list[str]:
    return [event.name for event in events if isinstance(event, Hook)]
