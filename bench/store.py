"""How quick the store is: `python bench/store.py`. Prints events per second; the disk's flushes decide the rest."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable

from ostler.model import Envelope, Session, Text, TextDelta, ToolStarted, Turn, TurnRow
from ostler.store import Masker, Redactor, Store

SECRETS = [f"{n * 7919:08x}-secret-{n}" for n in range(1, 9)]
WORDS = [
    "The",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "the",
    "lazy",
    "dog",
    "and",
    "says",
    "this",
    "list",
    "of",
    "tasks",
]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Store.open(f"{folder}/state") as store:
        await store.add_session(Session(id="s", agent="script", folder="/w", created_at=0.0, used_at=0.0))
        seq = iter(range(1, 10**9))

        def events(count: int) -> list[Text]:
            return [
                Text(seq=next(seq), at=1.0, turn="t", text="a line of about forty characters, more or less")
                for _ in range(count)
            ]

        await told("single appends, one after the other", 5_000, 1, lambda: store.append("s", events(1)))
        await told(
            "single appends, 50 at a time", 400, 50, lambda: all_of(store.append("s", events(1)) for _ in range(50))
        )
        await told("appends of 500 events", 100, 500, lambda: store.append("s", events(500)))
        await told("turns begun and ended (two flushes each)", 200, 1, lambda: turn(store, str(next(seq))))

        started = time.perf_counter()
        count = len(store.events("s"))
        print(f"{'events read back':45} {count / (time.perf_counter() - started):>12,.0f} /s")
        started = time.perf_counter()
        for _ in range(20_000):
            store.data_version()
        print(f"{'data_version':45} {20_000 / (time.perf_counter() - started):>12,.0f} /s")
    redaction()


async def all_of(calls) -> None:  # type: ignore[no-untyped-def]
    await asyncio.gather(*calls)


async def turn(store: Store, id: str) -> None:
    asked = Turn(id=id, session="s", agent="script", prompt="p", folder="/w")
    await store.begin_turn(TurnRow(id=id, session="s", state="starting", turn=asked, created_at=0.0))
    envelope = Envelope(
        status="ok", outcome="done", summary="", text="", turn=id, session="s", agent="script", served_by="script",
        started_at=0.0, duration_ms=0,
    )  # fmt: skip
    await store.end_turn(id, last=(), envelope=envelope)


async def told(what: str, rounds: int, each: int, call: Callable[[], Awaitable[object]]) -> None:
    started = time.perf_counter()
    for _ in range(rounds):
        await call()
    print(f"{what:45} {rounds * each / (time.perf_counter() - started):>12,.0f} /s")


def redaction() -> None:
    redactor = Redactor(SECRETS)
    cases = {
        "redact text_delta": [TextDelta(text=" " + word, id="m") for word in WORDS],
        "redact text": [Text(text=" ".join(WORDS), id="n")],
        "redact tool_started": [ToolStarted(id="t", name="Bash", title="ls", input={"command": "ls -la src"})],
    }
    for what, events in cases.items():
        started = time.perf_counter()
        for n in range(100_000):
            redactor.event(events[n % len(events)])
        print(f"{what:45} {100_000 / (time.perf_counter() - started):>12,.0f} /s")
    data, masker = (" ".join(WORDS) * 800).encode(), Masker(redactor)
    started = time.perf_counter()
    for _ in range(100):
        masker.feed(data)
    print(f"{'mask raw output':45} {len(data) * 100 / 1e6 / (time.perf_counter() - started):>12,.0f} MB/s")


if __name__ == "__main__":
    asyncio.run(main())
