"""The time that tools take, without the time that people take. Pure: whoever asks says what time it is."""

from ostler.model import Answered, AnyEvent, Asked, ToolEnded, ToolStarted


class ToolTimes:
    """A stopwatch for each tool. It stands still while an ask is open.

    An ask with the id of a tool is about that one; one with an id of its own may be about any, and stops all.
    """

    def __init__(self) -> None:
        self._worked: dict[str, float] = {}  # tool → seconds up to when its stopwatch last stopped
        self._going: dict[str, float] = {}  # those that go → since when
        self._asks: set[str] = set()

    def took(self, event: AnyEvent, now: float) -> float | None:
        """Takes an event in; the seconds that a tool worked when it is the end of one."""
        match event:
            case ToolStarted():
                self._worked.setdefault(event.id, 0.0)
            case Asked():
                self._asks.add(event.id)
            case Answered():
                self._asks.discard(event.id)
            case ToolEnded() if event.id in self._worked:
                took = self.seconds(event.id, now)
                self._asks.discard(event.id)
                del self._worked[event.id]
                self._going.pop(event.id, None)
                self._stop_or_go(now)
                return took
        self._stop_or_go(now)
        return None

    def seconds(self, tool: str, now: float) -> float:
        """Of one that still works."""
        return self._worked.get(tool, 0.0) + now - self._going.get(tool, now)

    def _stop_or_go(self, now: float) -> None:
        about_any = self._asks - self._worked.keys()
        for tool in self._worked:
            if about_any or tool in self._asks:
                self._worked[tool] = self.seconds(tool, now)
                self._going.pop(tool, None)
            else:
                self._going.setdefault(tool, now)
