"""The one place where secrets are taken out, before disk, socket or screen."""

import threading
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar, cast
from weakref import WeakSet

import msgspec
from msgspec.structs import replace

from ostler.model import EVENT_ENCODER, AnyEvent, Ended, Notice, Raw, Text, TextDelta, Thought, ThoughtDelta
from ostler.store.records import RecordMasker
from ostler.store.scan import Scan
from ostler.store.stream import Stream

T = TypeVar("T")

REDACTED = "[redacted]"
SHORTEST = 12  # shorter values are found in innocent text
_KEPT = frozenset({"diff", "structured"})  # changed, they would be wrong: a hit is told instead
_DEEPEST = 100  # what is nested deeper is searched as JSON text


class Redactor:
    """Takes known secret values, and tokens known by their shape, out of one turn's events and texts.

    Deltas that may be the beginning of a secret are held back until the next ones decide it.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known = KnownSecrets(secrets)
        self._str, self._bytes = _scans(self._known.values)
        self._streams: dict[tuple[type[AnyEvent], str], Stream[str]] = {}
        self._records: RecordMasker | None = None  # of records that nobody understood: they may hold pieces of texts
        self._raw: deque[tuple[Raw, bytes]] = deque()  # those that wait for what follows, and what they were

    def text(self, text: str) -> str:
        if not self._str.may_hold(text):
            return text
        stream = Stream(self._str, _marked)
        clean = stream.feed(text) + stream.close()
        return text if clean == text else clean

    def masker(self) -> "Masker":
        return Masker(self)

    def record_masker(self) -> RecordMasker:
        """For records that hold pieces of texts."""
        return RecordMasker(self.masker, self._bytes.may_begin)

    def holds(self, value: Any) -> bool:
        """Whether a secret stands anywhere in the value."""
        return bool(self.clean(value) != value)

    def clean(self, value: T) -> T:
        """The value (text, plain objects, structs) without secrets; `diff` and `structured` fields as they are."""
        return cast(T, self._clean(value, 0)) if self._may_stand_in(value) else value

    def event(self, event: AnyEvent) -> list[AnyEvent]:
        """What may be told by now: usually the event itself, nothing while a delta is held back, or more than one."""
        match event:
            case TextDelta() | ThoughtDelta():
                return self._delta(event)
            case Text(id=id) if self._streams:
                return [*self._rest(TextDelta, id, event), *self._whole(event)]
            case Thought(id=id) if self._streams:
                return [*self._rest(ThoughtDelta, id, event), *self._whole(event)]
            case Raw(record=dict()):
                return self._raw_records(event)
            case Ended() if self._streams or self._raw:
                return [*self.flush(event), *self._whole(event)]
            case _:
                return self._whole(event)

    def flush(self, like: AnyEvent | None = None) -> list[AnyEvent]:
        """What was held back: records, and deltas with the time and turn of `like`."""
        records = self._records.close() if self._records is not None else b""
        return [
            *self._decided_records(records),
            *(delta for kind, id in list(self._streams) for delta in self._rest(kind, id, like)),
        ]

    # -- deltas -------------------------------------------------------------------------------------

    def _delta(self, event: TextDelta | ThoughtDelta) -> list[AnyEvent]:
        key = (type(event), event.id)
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = Stream(self._str, _marked)
        shown = stream.feed(event.text)
        if shown is event.text:
            return [event]
        return [replace(event, text=shown)] if shown else []

    def _rest(self, kind: type[AnyEvent], id: str, like: AnyEvent | None) -> list[AnyEvent]:
        stream = self._streams.pop((kind, id), None)
        shown = stream.close() if stream else ""
        if not shown:
            return []
        made = TextDelta(text=shown, id=id) if kind is TextDelta else ThoughtDelta(text=shown, id=id)
        return [replace(made, at=like.at, turn=like.turn) if like else made]

    # -- records ------------------------------------------------------------------------------------

    def _raw_records(self, event: Raw) -> list[AnyEvent]:
        """The records that are decided with this one. A key whose pieces stand in several cannot be joined."""
        try:
            line = EVENT_ENCODER.encode(event.record) + b"\n"
        except (RecursionError, UnicodeError, TypeError, ValueError):
            return self._whole(event)
        if self._records is None:
            self._records = self.record_masker()
        self._raw.append((event, line))
        return self._decided_records(self._records.feed(line))

    def _decided_records(self, lines: bytes) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        for line in lines.splitlines(keepends=True):
            event, was = self._raw.popleft()
            events += self._whole(event if line == was else _starred_record(event, line))
        return events

    # -- whole events -------------------------------------------------------------------------------

    def _whole(self, event: AnyEvent) -> list[AnyEvent]:
        if not self._may_stand_in(event):
            return [event]
        cleaned = cast(AnyEvent, self._clean(event, 0))
        diff = getattr(event, "diff", "")
        if not diff or self.text(diff) == diff:
            return [cleaned]
        warning = "A diff may contain a secret: diffs are kept as they are"
        return [cleaned, Notice(text=warning, code="secret", at=event.at, turn=event.turn)]

    def _may_stand_in(self, value: Any) -> bool:
        """Quick: False if no secret stands anywhere in the value."""
        try:
            return self._bytes.may_hold(EVENT_ENCODER.encode(value))
        except (RecursionError, UnicodeError, TypeError, ValueError):
            return True  # cannot be looked at as JSON: look at each part

    def _clean(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if depth > _DEEPEST and isinstance(value, dict | list | tuple):
            return self.text(_as_json(value))
        if isinstance(value, dict):
            return {self._clean(k, depth + 1): self._clean(v, depth + 1) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._clean(part, depth + 1) for part in value)
        if isinstance(value, msgspec.Struct):
            return self._clean_struct(value, depth)
        return value

    def _clean_struct(self, value: msgspec.Struct, depth: int) -> Any:
        names = [name for name in value.__struct_fields__ if name not in _KEPT]
        return replace(value, **{name: self._clean(getattr(value, name), depth + 1) for name in names})


class KnownSecrets:
    """Secrets that this process knows for as long as somebody keeps this object."""

    def __init__(self, values: Iterable[str]) -> None:
        self.values = frozenset(values)
        with _known_lock:
            _all_known.add(self)


_all_known: "WeakSet[KnownSecrets]" = WeakSet()
_known_lock = threading.Lock()  # threads log too


def known_to_any() -> Redactor:
    """A redactor of all secrets that anybody in this process knows by now: for what belongs to no single turn."""
    with _known_lock:
        known = list(_all_known)
    return Redactor(frozenset[str]().union(*(each.values for each in known)))


class Masker:
    """Masks a byte stream at equal length, also values that are split over chunks."""

    def __init__(self, redactor: Redactor) -> None:
        self._stream = Stream(redactor._bytes, _starred)

    @property
    def idle(self) -> bool:
        """Nothing is held back, and nothing that was fed goes on as a secret."""
        return self._stream.idle

    def feed(self, data: bytes) -> bytes:
        return self._stream.feed(data)

    def provisional(self, skip: int = 0, whole: bool = False) -> bytes:
        """What is held back but for its first `skip` bytes, as it may be seen before it is decided: of what may be a
        secret at most a third, and the rest masked; the `whole` if nothing is likely to follow. Once it is decided
        it is returned all the same, at the same length.
        """
        return self._stream.provisional(skip, whole)

    def close(self) -> bytes:
        """What was held back; call it once, at the end."""
        return self._stream.close()


@lru_cache(maxsize=16)
def _scans(secrets: frozenset[str]) -> tuple[Scan[str], Scan[bytes]]:
    """Built once for the same secrets: it takes longer than the rest of a small turn."""
    known = {form for value in secrets if len(value.strip()) >= SHORTEST for form in _forms(value.strip())}
    return Scan(known, str), Scan((_units(value) for value in known), _to_bytes)


def _forms(value: str) -> set[str]:
    """The value as it is and as JSON quotes it."""
    import json

    return {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}


def _starred_record(event: Raw, line: bytes) -> Raw:
    """The event with what its line holds by now; as text where the stars have made it no JSON."""
    try:
        return replace(event, record=msgspec.json.decode(line))
    except msgspec.DecodeError:
        return replace(event, record=None, line=line.decode("utf-8", "replace").rstrip("\n"))


def _as_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (RecursionError, UnicodeError, TypeError):
        return REDACTED  # cannot be searched, so it is not shown


def _units(value: str) -> str:
    return value.encode("utf-8", "surrogateescape").decode("latin-1")


def _to_bytes(text: str) -> bytes:
    return text.encode("latin-1")


def _marked(_: int, begins: bool) -> str:
    return REDACTED if begins else ""


def _starred(length: int, _: bool) -> bytes:
    return b"*" * length
