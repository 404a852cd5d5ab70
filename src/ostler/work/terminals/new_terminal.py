"""A new terminal's id, name, command and environment: checked before anything is stored or spawned."""

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence

from ostler.errors import OstlerError, quoted
from ostler.work.turns.environment import matches

COLS, ROWS = 120, 30
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # nothing that is misread
# What the terminal around ostler told of itself: the program is in another one.
_OUTER = (
    *("TMUX", "TMUX_PANE", "STY", "WINDOW", "WINDOWID", "TERMCAP", "COLUMNS", "LINES", "TERM_PROGRAM*", "VTE_*"),
    *("KITTY_*", "WEZTERM_*", "ITERM_*", "ALACRITTY_*", "GHOSTTY_*", "KONSOLE_*", "WT_*", "TERM_SESSION_ID"),
)


def new_terminal_id(taken: Callable[[str], bool]) -> str:
    """`t-` and a few letters that people can type."""
    for size in (4, 4, 5, 5, 6, 8):
        if not taken(id := _random_id(size)):
            return id
    return f"t-{os.urandom(12).hex()}"


def new_turn_terminal_id() -> str:
    """For the terminal that each turn has: long enough that nobody has to look whether it is taken."""
    return _random_id(8)


def _random_id(size: int) -> str:
    return f"t-{random_letters(size)}"


def random_letters(size: int) -> str:
    """For ids that people can type."""
    return "".join([_ALPHABET[byte % len(_ALPHABET)] for byte in os.urandom(size)])


def checked_name(name: str, of: str = "terminal") -> str:
    if not name.strip() or len(name) > 100 or re.search(r"^-|[\x00-\x1f\x7f-\x9f]", name):
        hint = "Give 1 to 100 characters on one line, and no - at the beginning"
        raise OstlerError("bad_request", f"{quoted(name)} cannot be the name of a {of}", hint)
    return name


def free_name(program: str, taken: Collection[str]) -> str:
    """The program's own name, numbered where it is taken."""
    base = re.sub(r"[\x00-\x1f\x7f-\x9f]", "", os.path.basename(program))[:80] or "terminal"
    number = 2
    name = base
    while name in taken:
        name = f"{base} {number}"
        number += 1
    return name


def check_command(argv: Sequence[str], folder: str, env: Mapping[str, str]) -> None:
    """Raises `bad_request` for what is no command, `missing` for one that cannot be run."""
    import shutil

    if not argv or not argv[0]:
        raise OstlerError("bad_request", "there is no command to start", "Give a program and its arguments")
    if any("\0" in word for word in argv):
        raise OstlerError("bad_request", "a NUL character in the command")
    place = os.path.join(folder, argv[0]) if "/" in argv[0] else argv[0]
    if shutil.which(place, path=env.get("PATH", os.defpath)) is not None:
        return
    if "/" in argv[0] and os.path.exists(place):
        raise OstlerError("missing", f"`{argv[0]}` cannot be executed", f"Run chmod +x {argv[0]}, or name a program")
    raise OstlerError("missing", f"`{argv[0]}` is not a command that can be run", "Check the spelling and PATH")


def environment(base: Mapping[str, str], add: Mapping[str, str]) -> dict[str, str]:
    """The user's own, without what speaks of ostler or of the terminal around it."""
    own = {name: value for name, value in base.items() if not name.startswith("OSTLER_") and not matches(name, _OUTER)}
    return {**own, "TERM": "xterm-256color", "COLORTERM": "truecolor", **add}
