"""The half of the conformance suite that feeds records to a reader."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ostler.agents.adapter import Agent
from ostler.agents.reader import Reader, decode
from ostler.agents.values import Record
from ostler.model import (
    EVENT_DECODER,
    EVENT_ENCODER,
    Ended,
    Event,
    Exit,
    Raw,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    Verdict,
)
from ostler.testing import fuzz
from ostler.testing.conformance import Ledger, watching

STREAMS, LENGTH = 60, 20  # random streams, and records in each
CUTS = 6  # places where each capture is broken off
LONGEST = 400  # records of a capture that are looked at
EXITS = (Exit(code=1), Exit(signal=9))
UNKNOWN: tuple[Record, ...] = (
    {"type": "zz_unknown", "n": 1},
    {"kind": "zz_unknown", "text": "x"},
    {"zz_unknown": {"type": "text"}},
    {"type": 7},
    {"type": None, "kind": None},
    {"type": ["zz"], "kind": {"zz": 1}},
    {},
)


def check_reader(agent: Agent, turn: Turn, captures: Path | None, seed: int, ledger: Ledger) -> None:
    rng = random.Random(seed)
    recorded = _captures(captures)
    _check_unknown(agent, turn, ledger)
    ended = _read(agent, turn, [], Exit(code=0), ledger)
    if ended is not None:
        ledger.expect("proof", ended[1].outcome != "done", "done without a single record")
    for _ in range(STREAMS):
        _check_survives(agent, turn, [fuzz.record(rng) for _ in range(LENGTH)], ledger)
    for name, records in recorded.items():
        _check_capture(agent, turn, name, records, rng, ledger)


def _captures(folder: Path | None) -> dict[str, list[Record]]:
    """The records of each one-shot capture; names with a second dot are other streams."""
    paths = sorted(folder.glob("*.ndjson")) if folder else []
    found: dict[str, list[Record]] = {}
    for path in paths:
        if "." not in path.stem:
            values = [decode(line) for line in path.read_bytes().splitlines()]
            found[path.stem] = [value for value in values if isinstance(value, dict)][:LONGEST]
    return found


# -- feeding ----------------------------------------------------------------------------------------


def _read(
    agent: Agent, turn: Turn, records: Sequence[Record], exit: Exit | None, ledger: Ledger
) -> tuple[list[Any], Verdict] | None:
    """All events and the verdict; None after an exception, which is a finding."""
    reader = agent.reader(turn)
    events: list[Any] = []
    record: Any = None
    try:
        for record in records:
            events += reader.read(fuzz.copied(record))
        record = "the end of the stream"
        events += reader.flush()
        verdict = reader.end(exit, "")
    except Exception as error:
        ledger.expect("survives", False, f"{error!r} on {str(record)[:300]}")
        return None
    ledger.expect("survives", True, "")
    return events, verdict


def _check_survives(agent: Agent, turn: Turn, records: list[Record], ledger: Ledger) -> Verdict | None:
    first = _read(agent, turn, records, Exit(code=1), ledger)
    if first is None:
        return None
    with watching() as touched:
        second = _read(agent, turn, records, Exit(code=1), ledger)
    ledger.expect("repeatable", first == second, "the same records give two different lists of events")
    ledger.expect("pure", not touched, f"the reader touches {', '.join(touched[:3])}")
    _check_events(first[0], ledger)
    _check_closed(first[0], "random records", ledger)
    return first[1]


def _check_events(events: list[Any], ledger: Ledger) -> None:
    for event in events:
        if not isinstance(event, Event):
            ledger.expect("events", False, f"{event!r} is no event")
            continue
        ledger.expect("events", not isinstance(event, Ended), "`ended` is ostler's to say")
        stamped = (event.seq, event.at, event.turn) != (0, 0.0, "")
        ledger.expect("events", not stamped, f"seq, at and turn are given by the owner: {event!r}")
        try:
            EVENT_DECODER.decode(EVENT_ENCODER.encode(event))
        except Exception as error:
            ledger.expect("events", False, f"{event!r} cannot be written down: {error!r}")


def _check_unknown(agent: Agent, turn: Turn, ledger: Ledger) -> None:
    for record in UNKNOWN:
        reader: Reader = agent.reader(turn)
        try:
            events = reader.read(fuzz.copied(record))
            outcome = reader.end(Exit(code=0), "").outcome
        except Exception as error:
            ledger.expect("survives", False, f"{error!r} on {record}")
            continue
        kept = any(isinstance(event, Raw) and event.record == record for event in events)
        ledger.expect("unknown", kept, f"{record} became {events!r}")
        ledger.expect("proof", outcome != "done", f"done after nothing but {record}")


# -- captures ---------------------------------------------------------------------------------------


def _check_capture(
    agent: Agent, turn: Turn, name: str, records: list[Record], rng: random.Random, ledger: Ledger
) -> None:
    whole = _read(agent, turn, records, Exit(code=0), ledger)
    if whole is None:
        return
    events, verdict = whole
    _check_events(events, ledger)
    _check_whole(events, name, ledger)
    _check_closed(events, name, ledger)
    for cut in sorted(rng.sample(range(len(records)), min(CUTS, len(records)))):
        if (part := _read(agent, turn, records[:cut], EXITS[cut % 2], ledger)) is not None:
            _check_whole(part[0], f"{name}, broken off after {cut} records", ledger)
            _check_closed(part[0], f"{name}, broken off after {cut} records", ledger)
    for odd in ([fuzz.damaged(rng, record) for record in records], rng.sample(records, len(records))):
        said = _check_survives(agent, turn, odd, ledger)
        ledger.expect("exit", said is None or said.outcome != "done", f"{name}, damaged: done with exit code 1")
    if verdict.outcome == "done":
        _check_proof(agent, turn, name, records, ledger)


def _check_proof(agent: Agent, turn: Turn, name: str, records: list[Record], ledger: Ledger) -> None:
    """A capture that ends well does so only whole, and only with exit code 0."""
    for exit in EXITS:
        ended = _read(agent, turn, records, exit, ledger)
        ledger.expect("exit", ended is None or ended[1].outcome != "done", f"{name}: done in spite of {exit}")
    part = _read(agent, turn, records[: len(records) // 4], Exit(code=0), ledger)  # before any result, surely
    ledger.expect("proof", part is None or part[1].outcome != "done", f"{name}: done after a quarter of its records")


def _check_whole(events: list[Any], name: str, ledger: Ledger) -> None:
    open_texts: dict[tuple[str, str], str] = {}
    for event in events:
        match event:
            case TextDelta() | ThoughtDelta():
                key = ("text" if isinstance(event, TextDelta) else "thought", event.id)
                open_texts[key] = open_texts.get(key, "") + event.text
            case Text() | Thought():
                key = ("text" if isinstance(event, Text) else "thought", event.id)
                streamed = open_texts.pop(key, event.text)
                same = streamed.strip() == event.text.strip()
                ledger.expect("whole", same, f"{name}: {streamed!r} was streamed, {event.text!r} is the whole")
    ledger.expect("whole", not open_texts, f"{name}: no whole text after the deltas {open_texts!r}")


def _check_closed(events: list[Any], name: str, ledger: Ledger) -> None:
    started = {event.id for event in events if isinstance(event, ToolStarted)}
    ended = {event.id for event in events if isinstance(event, ToolEnded)}
    ledger.expect("closed", started <= ended, f"{name}: never ended: {started - ended}")
