"""The newest event of a kind in a journal, looked for only in what was written since the last look."""

from collections.abc import Callable
from typing import Any

from ostler.model import EVENT_DECODER, AnyEvent, json_head

_MOST = 1000  # journals and kinds that are remembered

Read = Callable[..., list[tuple[Any, ...]]]
_QUERY = (
    "SELECT last, (SELECT body FROM events WHERE session = ?1 AND seq > max(?2, last - ?3)"
    " AND substr(body, 1, ?4) = ?5 ORDER BY seq DESC LIMIT 1)"
    " FROM (SELECT coalesce(max(seq), 0) AS last FROM events WHERE session = ?1)"
)


class LastEvents:
    """Journals only grow: what was looked through once need not be looked through again."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._found: dict[tuple[str, str, int | None], tuple[int, AnyEvent | None]] = {}

    def of(self, session: str, kind: str, among: int | None) -> AnyEvent | None:
        """None if there is none, or none `among` so many of the last events. Raises what decoding does."""
        head, key = json_head(kind), (session, kind, among)
        seen, known = self._found.pop(key, (0, None))
        values = ((1 << 62) if among is None else among, len(head), head)
        last, body = self._read(_QUERY, session, seen, *values)[0]
        if last < seen:  # the session was removed, and there is another of its name
            known = None
            last, body = self._read(_QUERY, session, 0, *values)[0]
        if body is not None:
            known = EVENT_DECODER.decode(body)
        elif known is not None and among is not None and known.seq <= last - among:
            known = None
        self._found[key] = (last, known)
        if len(self._found) > _MOST:
            del self._found[next(iter(self._found))]
        return known
