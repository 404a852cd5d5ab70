"""What the log says of a launch: the command, without prompts and secrets."""

import logging
from collections.abc import Sequence

from msgspec import structs

from ostler.model import Turn
from ostler.store import Redactor
from ostler.work.transports.transport import Attempt

LONGEST = 200  # characters of an argument; what is longer is some text, or JSON that holds one
_WORD = 4  # characters; a shorter prompt is found in innocent arguments

_log = logging.getLogger(__name__)


def log_launch(attempt: Attempt) -> None:
    turn = attempt.turn
    by = turn.agent if turn.agent == attempt.served_by else f"{turn.agent}, served by {attempt.served_by},"
    words = ("resuming, " if turn.resume else "") + f"access {turn.access}, by {attempt.transport}"
    _log.info("turn %s: %s in %s, %s", turn.id, by, turn.folder, words)
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug("turn %s: launching %s", turn.id, shown_command(attempt))
        limits = structs.asdict(turn.limits).items()
        _log.debug("turn %s: limits %s", turn.id, ", ".join(f"{name} {value:g}" for name, value in limits if value))


def shown_command(attempt: Attempt) -> str:
    """The command of an attempt as one line. An argument that holds a prompt is shown as its length."""
    return shown_argv(attempt.launch.argv, (attempt.turn, attempt.effective_turn), attempt.redactor)


def shown_argv(argv: Sequence[str], turns: Sequence[Turn], redactor: Redactor) -> str:
    import shlex  # few launches are logged

    texts = {text for turn in turns for text in (turn.prompt, turn.system) if text}
    return shlex.join(_shown(word, texts, redactor) for word in argv)


def _shown(word: str, texts: set[str], redactor: Redactor) -> str:
    holds_text = word in texts or any(len(text) >= _WORD and text in word for text in texts)
    if holds_text or len(word) > LONGEST or "\n" in word:
        return f"[{len(word)} characters]"
    return redactor.text(word)
