"""Dialogs on the screen of a TUI, as asks: found, told apart, and described by what is known for sure."""

from msgspec import Struct, structs

from ostler.access import Access
from ostler.agents.tui import Question, Signals, TranscriptReader, TuiFace, TuiScreen
from ostler.model import Asked, AskOption

_ROWS = 20  # of a dialog that is not known
STARTUP = "startup"  # the tool of an ask that comes before any prompt


class OpenQuestion(Struct, kw_only=True):
    """A dialog that was taken up as an ask."""

    ask: str
    question: Question
    times: int  # how often the program had said that it is blocked
    answered_at: float | None = None  # when its keys were pressed


class Candidate(Struct, frozen=True, kw_only=True):
    """A dialog that is seen, and since when."""

    question: Question
    since: float


def seen_question(face: TuiFace, screen: TuiScreen, signals: Signals) -> Question | None:
    """The dialog on the screen. One that the program speaks of, and the face does not know, has no options."""
    question = face.question(screen)
    if question is None and signals.state == "blocked":
        return Question(text="\n".join(screen.text.splitlines()[-_ROWS:]), title="it waits for an answer")
    return question


def same_question(one: Question, other: Question | None) -> bool:
    """By what it asks and offers; tips and clocks around that may change."""
    return other is not None and (one.title, _offers(one)) == (other.title, _offers(other))


def _offers(question: Question) -> list[tuple[str, str | None]]:
    """What is offered, wherever the mark stands."""
    return [(option.name, option.kind) for option in question.options]


def asked_of(question: Question, reader: TranscriptReader, access: Access, id: str, begun: bool) -> Asked:
    """The ask. What the records tell is exact; what a screen shows may be cut, so no rule is matched with it.

    Where nothing exact is known, an access that is not full can only be kept by refusing, unless a wall keeps it.
    """
    about = reader.asked_about(question) if begun else None
    options = [option for option in question.options if option.kind is not None]
    kept = access == "full" or (access == "write" and reader.turn.walled)
    if about is None and begun and not kept:
        options = [option for option in options if option.kind and option.kind.startswith("reject")]
    offered = tuple(AskOption(id=str(n), name=o.name, kind=o.kind) for n, o in enumerate(options, 1) if o.kind)
    if about is not None:
        return structs.replace(about, id=id, options=offered, reason=question.text, title=about.title or question.title)
    tool = question.tool or (STARTUP if not begun else "")
    return Asked(id=id, tool=tool, title=question.title, options=offered, reason=question.text)
