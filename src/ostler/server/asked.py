"""What a session asks just now: its newest open ask, for lists and tiles."""

from msgspec import Struct

from ostler.server.doing import one_line
from ostler.store.watch import Watch
from ostler.words import EVENT_DECODER, Answered, Asked, Ended
from ostler.work.ask_rules import command_of, paths_of

_BACK = 2000  # events that are looked at
_SHORT = 120  # characters of what can be judged at a glance

_TELLING = tuple(b'{"kind":"%s"' % str(event.__struct_config__.tag).encode() for event in (Answered, Asked, Ended))


class AskView(Struct, frozen=True, kw_only=True):
    """An open ask in one line. `whole`: the line is all that there is to it; else look before you allow."""

    id: str
    turn: str
    tool: str
    title: str
    options: tuple[str, ...]  # their kinds
    expires_at: float | None
    whole: bool


class OpenAsks(Struct, frozen=True, kw_only=True):
    newest: AskView | None = None
    count: int = 0


def open_asks(watch: Watch, session: str) -> OpenAsks:
    """Those that nobody has answered, of the turn that runs."""
    found: list[Asked] = []
    answered: set[str] = set()

    def enough(body: bytes) -> bool:
        if not body.startswith(_TELLING):
            return False
        match EVENT_DECODER.decode(body):
            case Answered(id=id):
                answered.add(id)
            case Asked(id=id) as asked if id not in answered:
                found.append(asked)
            case Ended():
                return True
        return False

    watch.newest_events(session, _BACK, enough)
    return OpenAsks(newest=ask_view(found[0]) if found else None, count=len(found))


def ask_view(asked: Asked) -> AskView:
    command = command_of(asked.input)
    title = one_line(command or asked.title or next(iter(paths_of(asked)), "") or asked.tool)
    return AskView(
        id=asked.id,
        turn=asked.turn,
        tool=asked.tool,
        title=title,
        options=tuple(option.kind for option in asked.options),
        expires_at=asked.expires_at,
        whole=command == title and len(title) <= _SHORT and not asked.diff,
    )
