"""copilot's own screen, and the file that it keeps of a conversation (`~/.copilot/session-state/ID/events.jsonl`)."""

import re

from msgspec import structs

from ostler.agents.copilot.reader import EDITS, CopilotReader
from ostler.agents.launches import with_attachments
from ostler.agents.tui import (
    EMPTY_CELL,
    DialogOption,
    Question,
    TranscriptReader,
    TuiScreen,
    is_rule,
    last_row,
    numbered,
    unframed,
)
from ostler.agents.values import Record, number, table, tables, text
from ostler.model import AnyEvent, Asked, AskOptionKind, FileChange, Launch, Turn, Usage, UsageReport

INTERRUPTED = r"● Operation cancelled by user"
PASTED = r"\[Paste\b"
TRUST = "Confirm folder trust"
_HEADLESS = ("--output-format=", "--attachment=", "--allow-all")
_HEAD, _FOOT = r"^(?:╻▄{20,}|─{20,}\s*$)", r"^(?:╹▀{20,}|─{20,}\s*$)"  # lines where it does not know the colours
_BUSY = re.compile(r"\besc esc (?:interrupt|edit prompt)\b|^ . Cancelling\b")
_SHOWN = 20  # rows above a dialog's options


def tui_launch(once: Launch) -> Launch:
    """The denials of one turn and none of its allowances but that of writes in the folder: it asks."""
    flags = [flag for flag in once.argv[1:] if not flag.startswith(_HEADLESS)]
    return structs.replace(once, argv=(once.argv[0], "--mode=interactive", *flags), stdin=b"")


def pasted_prompt(turn: Turn) -> str:
    """What begins with a sign of copilot's own is text after the empty braille cell; it runs `!` after a blank, too."""
    prompt = with_attachments(turn.prompt, turn.attachments)
    return prompt if turn.command or prompt.lstrip()[:1] not in ("/", "!", "#", "?") else f"{EMPTY_CELL}{prompt}"


# -- the screen -----------------------------------------------------------------------------------------------


def box(screen: TuiScreen) -> str | None:
    """What stands after ┃ or ❯ between the two bars; a dialog takes its place."""
    if (found := _box_rows(screen)) is None:
        return None
    return "\n".join(row.lstrip("┃❯").strip() for row in screen.rows[found[0] : found[1]]).strip()


def _box_rows(screen: TuiScreen) -> tuple[int, int] | None:
    foot = last_row(screen.rows, _FOOT)
    head = None if foot is None else last_row(screen.rows[:foot], _HEAD)
    if head is None or foot is None or not screen.rows[head + 1].startswith(("┃", "❯")):
        return None
    below = screen.rows[foot + 1 :]
    return None if any(row.startswith(("╭", "│", "╰")) for row in below) else (head + 1, foot)


def is_busy(screen: TuiScreen) -> bool:
    """By the line under the box."""
    found = _box_rows(screen)
    return found is not None and any(_BUSY.search(row) for row in screen.rows[found[1] + 1 :])


def answer_ends(screen: TuiScreen) -> int | None:
    """Above the box stands the folder."""
    found = _box_rows(screen)
    return found[0] - 2 if found else None


def question(screen: TuiScreen) -> Question | None:
    rows = screen.rows
    listed = numbered(rows)
    if listed is None or _box_rows(screen) is not None:
        return None  # a list of the conversation, or in the box: below a dialog there is none
    top = last_row(rows[: listed.row], r"^╭─{20,}")
    start = top if top is not None else max(0, listed.row - _SHOWN)
    lines = [line for row in rows[start : listed.row] if not is_rule(unframed(row)) and (line := unframed(row))]
    options = tuple(
        DialogOption(name=name, keys=("Escape",) if (kind := _kind(name)) == "reject_once" else (str(n),), kind=kind)
        for n, name in enumerate(listed.names, 1)
    )
    title = lines[0] if lines else ""
    return Question(
        text="\n".join([*lines, *listed.names]),
        title=" ".join(dict.fromkeys((title, lines[-1] if lines else "")))[:300],
        options=options,
        # ostler has decided what counts of what the folder brings; it holds for this process alone.
        settled_by=options[0] if title == TRUST and options[0].name == "Yes" else None,
    )


def _kind(name: str) -> AskOptionKind | None:
    """What it would keep in its settings is for a person at the terminal; a no ends the turn."""
    if name == "Yes":
        return "allow_once"
    return "reject_once" if re.match(r"No\b", name) else None


# -- the file -------------------------------------------------------------------------------------------------


def transcripts(turn: Turn) -> tuple[str, ...]:
    return (f".copilot/session-state/{turn.agent_session}/events.jsonl",) if turn.agent_session else ()


class CopilotTranscript(CopilotReader, TranscriptReader):
    """The records of a turn of one process, without its last one: an answer without a tool call is the end."""

    tentative = True

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._answered = False
        self._used: list[Record] = []

    def read(self, record: Record) -> list[AnyEvent]:
        kind, data = text(record.get("type")), table(record.get("data"))
        if kind == "user.message" and not self.prompted and self.take_prompt(text(data.get("content"))):
            self.agent_session, self.begun = self.turn.agent_session, True
            return [self.started()]
        if not self.prompted:
            return []
        events = super().read(record)
        if "agentId" not in record:
            self._judge(kind, data)
        return [*events, *self._usage(table(data.get("usage")))] if kind == "session.usage_record" else events

    def asked_about(self, question: Question) -> Asked | None:
        """With the file that an edit would change: under `write`, one whose file is not known can only be refused."""
        about = super().asked_about(question)
        if about is None or about.tool not in EDITS:
            return about
        path = text(table(about.input).get("path"))
        return structs.replace(about, files=(FileChange(path=path),)) if path else None

    def _judge(self, kind: str, data: Record) -> None:
        match kind:
            case "assistant.turn_start":
                self._answered, self.result, self.problem = False, None, None
                self.evidence.clear()
            case "assistant.message":
                self._answered = not tables(data.get("toolRequests"))
            case "assistant.turn_end" if self._answered:
                self.succeed("assistant.turn_end")
            case "abort":
                self.interrupted = True
            case "session.error" if self.last_error is not None:
                self.fail("session.error", self.last_error.kind, self.last_error.message, self.last_error.hint)

    def _usage(self, used: Record) -> list[AnyEvent]:
        self._used.append(used)

        def total(name: str) -> int:
            return sum(number(each.get(name)) or 0 for each in self._used)

        self.usage = Usage(
            input_tokens=total("inputTokens"),
            output_tokens=total("outputTokens"),
            cached_tokens=total("cacheReadTokens"),
        )
        return [UsageReport(usage=self.usage)]
