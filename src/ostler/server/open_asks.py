"""What a session asks just now: its newest open ask, for lists and tiles."""

from msgspec import Struct

from ostler.agents.tool_input import command_of, paths_of
from ostler.model import Asked, AskOptionKind
from ostler.store.watch import StoreWatch

_SHORT = 120  # characters of what can be judged at a glance
_LONGEST = 200
_WORDS = frozenset(("command", "cmd", "description"))  # of an input: the command, and what the agent says about it


class AskView(Struct, frozen=True, kw_only=True):
    """An open ask in one line. `whole`: the line is all that there is to it; else look before you allow."""

    id: str
    turn: str
    tool: str  # the agent's own name
    category: str  # ostler's word for it
    title: str
    options: tuple[AskOptionKind, ...]
    expires_at: float | None
    whole: bool


class OpenAsks(Struct, frozen=True, kw_only=True):
    newest: AskView | None = None
    count: int = 0


def open_asks(watch: StoreWatch, session: str) -> OpenAsks:
    """Those that nobody has answered, however long ago they came."""
    count, newest = watch.open_asks(session)
    return OpenAsks(newest=ask_view(newest) if newest else None, count=count)


def ask_view(asked: Asked) -> AskView:
    command = command_of(asked.input)
    title = first_line(command or asked.title or next(iter(paths_of(asked)), "") or asked.tool)
    return AskView(
        id=asked.id,
        turn=asked.turn,
        tool=asked.tool,
        category=asked.category,
        title=title,
        options=tuple(option.kind for option in asked.options),
        expires_at=asked.expires_at,
        whole=command == title and len(title) <= _SHORT and not asked.diff and _is_command_alone(asked),
    )


def first_line(text: str) -> str:
    """The first line that says something; `…` where there is more."""
    lines = [line for line in text.splitlines() if line.strip()]
    line = " ".join("".join(char if char.isprintable() else " " for char in lines[0]).split()) if lines else ""
    if len(line) > _LONGEST:
        return line[: _LONGEST - 1] + "…"
    return f"{line[: _LONGEST - 2]} …" if len(lines) > 1 else line


def _is_command_alone(asked: Asked) -> bool:
    """A tool that is no shell may do anything with a command, and another field may say where it runs."""
    return asked.category == "shell" and len({*asked.input} & {"command", "cmd"}) == 1 and {*asked.input} <= _WORDS
