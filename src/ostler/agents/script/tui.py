"""The scripted agent's own screen (`ostler-script-agent --tui`), as `ostler.testing.tui` draws it."""

from collections.abc import Callable

from msgspec import structs

from ostler.agents.launches import with_attachments
from ostler.agents.tui import (
    DialogOption,
    Question,
    TranscriptReader,
    TuiScreen,
    above,
    is_rule,
    last_row,
    numbered,
    unframed,
)
from ostler.agents.values import Record
from ostler.model import Answered, AnyEvent, Asked, AskOptionKind, Host, Launch, Turn

PLACEHOLDER = "Type your message"
INTERRUPTED = r"■ Interrupted"
# What its dialogs offer, word by word.
KINDS: dict[str, AskOptionKind] = {
    "Yes": "allow_once",
    "Yes, and don't ask again": "allow_always",
    "No, and say what to do instead (esc)": "reject_once",
    "Yes, proceed": "allow_once",
    "No, exit": "reject_once",
}


def tui_launch(launch: Callable[[Turn, Host], Launch]) -> Callable[[Turn, Host], Launch]:
    """The same flags as for one turn, but for those of the prompt, which is typed."""

    def launched(turn: Turn, host: Host) -> Launch:
        once = launch(structs.replace(turn, attachments=(), schema=None), host)
        return Launch(argv=(*once.argv, "--tui"), files=once.files)

    return launched


def pasted_prompt(turn: Turn) -> str:
    """White space before a slash makes text of it."""
    text = with_attachments(turn.prompt, turn.attachments)
    return f" {text}" if text.startswith("/") and not turn.command else text


def box(screen: TuiScreen) -> str | None:
    """What stands after ❯ between the lines of the last frame; a dialog has options there."""
    inside = _framed(screen)
    if not inside or not inside[0].startswith("❯"):
        return None
    text = "\n".join(inside).removeprefix("❯").strip()
    return "" if text == PLACEHOLDER else text


def _framed(screen: TuiScreen) -> list[str]:
    """What stands in the lowest frame: the box, or a dialog."""
    foot = last_row(screen.rows, r"^╰─+╯")
    head = None if foot is None else last_row(screen.rows[:foot], r"^╭─+╮")
    return [] if head is None else [unframed(row) for row in screen.rows[head + 1 : foot]]


def answer_ends(screen: TuiScreen) -> int | None:
    """Above the frame stand the busy line and the answer."""
    return last_row(screen.rows, r"^╭─+╮")


def is_busy(screen: TuiScreen) -> bool:
    return last_row(screen.rows, r"^\s*[◐◓◑◒] Working…") is not None


def question(screen: TuiScreen) -> Question | None:
    inside = _framed(screen)
    listed = numbered(screen.rows)
    if listed is None or not inside or inside[0].startswith("❯"):
        return None  # a list of the conversation, or in the box
    row, names = listed.row, listed.names
    lines = above(screen.rows, row, is_rule)
    title = lines[0] if lines else ""
    tool = title.removeprefix("Allow ").removesuffix("?") if title.startswith("Allow ") else ""
    options = tuple(
        DialogOption(name=name, keys=(str(n),), kind=KINDS.get(name)) for n, name in enumerate(names, start=1)
    )
    return Question(text="\n".join([*lines, *names]), title=" ".join(lines), tool=tool, options=options)


def transcripts(turn: Turn) -> tuple[str, ...]:
    return (f".local/state/ostler-script/sessions/{turn.agent_session}.ndjson",) if turn.agent_session else ()


class ScriptTranscript(TranscriptReader):
    """Prompts and answers of the file, and its records, which are those of a turn of one process.

    A subclass reads these (`read_record`).
    """

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._asked: Asked | None = None

    def read_record(self, record: Record) -> list[AnyEvent]:
        raise NotImplementedError

    def read(self, record: Record) -> list[AnyEvent]:
        if isinstance(prompt := record.get("prompt"), str):
            if not self.take_prompt(prompt):
                return []
            self.agent_session = self.turn.agent_session
            return [self.started()]
        if not self.prompted or not ("kind" in record or "type" in record):
            self.interrupted = self.interrupted or (self.prompted and bool(record.get("interrupted")))
            return []  # of turns before, or the answer, which its record tells too
        events = self.read_record(record)
        self._asked = next((event for event in events if isinstance(event, Asked)), None)
        return [event for event in events if not isinstance(event, Asked | Answered)]  # the screen asks

    def asked_about(self, question: Question) -> Asked | None:
        return self._asked
