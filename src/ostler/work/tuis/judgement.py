"""How a turn in a TUI went, where its records do not say so themselves: by what ended it."""

from collections.abc import Callable

from msgspec import Struct

from ostler.agents.failures import kind_of
from ostler.agents.tui import TranscriptReader
from ostler.work.tuis.evidence import Ending
from ostler.work.tuis.hook_signals import HookSignals


class KnownOfTurn(Struct, frozen=True, kw_only=True):
    """What is known of a turn beside its records."""

    agent: str
    hooks: HookSignals | None
    denied: str  # what was not allowed last
    shown: Callable[[], str]  # the answer as the screen has it


def judge(reader: TranscriptReader, ending: Ending | None, known: KnownOfTurn) -> None:
    """What the records do not say, the ending does."""
    if ending is None:
        return
    if ending.how in ("interrupted", "unproven") or (ending.how == "ended" and reader.tentative):
        reader.result, reader.problem = None, None  # a word of success that came before does not count
        reader.evidence.clear()
    if known.hooks is not None:
        reader.agent_session = reader.agent_session or known.hooks.session or None
    if reader.result is not None or ending.how == "ended":
        return
    by = " and ".join(map(str, ending.by))
    if ending.how == "interrupted" and known.denied:
        reader.fail(by, "denied", f"{known.agent} stopped: {known.denied} was not allowed")
    elif ending.how == "interrupted":
        reader.fail(by, "cancelled", f"{known.agent} was interrupted at its terminal")
    elif ending.how == "unproven":
        hint = "Set done_pattern in a profile; a matching answer then counts as proof"
        reader.fail(by, "unproven", f"{known.agent} looks ready, but did not say that it is done", hint)
    elif ending.how == "failed":
        said = known.hooks.failure if known.hooks is not None else ""
        reader.fail(by, kind_of(None, said), said or f"{known.agent} says that the turn failed")
    else:
        _take_text(reader, known)
        reader.succeed(by)


def _take_text(reader: TranscriptReader, known: KnownOfTurn) -> None:
    """The answer, where no file of the conversation has it."""
    answer = known.hooks.answer if known.hooks is not None else ""
    reader.text = answer or reader.text or known.shown()
    reader.evidence.append("text: from a hook" if answer else "text: from the screen")
