"""gemini's own screen, and the file that it keeps of a conversation (`~/.gemini/tmp/…/chats/session-*.jsonl`)."""

import re
from typing import Any

from msgspec import structs

from ostler.access import Access
from ostler.agents.failures import kind_of
from ostler.agents.tool_input import title_of
from ostler.agents.tui import (
    EMPTY_CELL,
    DialogOption,
    Question,
    Status,
    TranscriptReader,
    TuiScreen,
    is_rule,
    last_row,
    numbered,
    unframed,
)
from ostler.agents.values import Record, number, table, tables, text
from ostler.model import (
    AnyEvent,
    AskOptionKind,
    FileChange,
    Launch,
    Notice,
    Thought,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
    UsageReport,
)

MODES: dict[Access, str] = {"read": "default", "write": "auto_edit", "full": "default"}  # under full it asks
PLACEHOLDER = "Type your message"
BANNER = r"Gemini CLI v\d"
INTERRUPTED = r"ℹ\s+Request cancelled"
_TITLES: dict[str, Status] = {"✦": "busy", "⏲": "busy", "✋": "asking", "◇": "ready"}
_KINDS: dict[str, AskOptionKind] = {
    "Allow once": "allow_once",
    "Allow for this session": "allow_always",
    "No, suggest changes (esc)": "reject_once",
}
_EDITS = ("write_file", "replace")


def tui_launch(once: Launch, turn: Turn) -> Launch:
    """The policy of one turn; the mode is explicit, and under `full` it asks."""
    flags = [flag for flag in once.argv[1:] if not flag.startswith(("--output-format=", "--approval-mode="))]
    argv = (once.argv[0], f"--approval-mode={MODES[turn.access]}", *flags)
    return structs.replace(once, argv=argv, stdin=b"")


def pasted_prompt(prompt: str, turn: Turn) -> str:
    """What begins with a sign of gemini's own (a command, a shell) is text after an empty cell, which it keeps."""
    bare = prompt.lstrip()
    return f"{EMPTY_CELL}{bare}" if bare[:1] in ("/", "!", "?") and not turn.command else prompt


# -- the screen -----------------------------------------------------------------------------------------------


def box(screen: TuiScreen) -> str | None:
    """What stands after > above the lowest line but one; a dialog takes its place."""
    if question(screen) is not None or (first := _box_row(screen)) is None:
        return None
    inside: list[str] = []
    for row in screen.rows[first:]:
        if is_rule(row) or (inside and not row.strip()):
            break
        inside.append(row.strip())
    text = "\n".join((inside[0].lstrip(">!*").strip(), *inside[1:])).strip()
    return "" if text.startswith(PLACEHOLDER) else text


def _box_row(screen: TuiScreen) -> int | None:
    """The lowest `>`; those of the conversation stand above it, and something is drawn right above each."""
    row = last_row(screen.rows, r"^\s?[>!*] ")
    return row if row is not None and last_row(screen.rows[:row], r"^─{20,}") is not None else None


def is_busy(screen: TuiScreen) -> bool:
    """By the line that turns above the box; what looks the same further up is an answer."""
    rows = screen.rows[: last_row(screen.rows, r"^─{20,}")]
    lowest = next((row for row in reversed(rows) if row.strip()), "")
    return re.match(r"\s?[\u2801-\u28ff] .*\(esc to cancel\b", lowest) is not None


def answer_ends(screen: TuiScreen) -> int | None:
    return last_row(screen.rows, r"^─{20,}")


def title_status(title: str) -> Status | None:
    return _TITLES.get(title[:1])


def question(screen: TuiScreen) -> Question | None:
    listed = numbered(screen.rows)
    if listed is None or not screen.rows[listed.row].lstrip().startswith("│"):
        return None  # a list of the conversation, or in the box: a dialog has a frame
    if last_row(screen.rows[listed.row :], r"^\s?> ") is not None:
        return None  # below a dialog there is no box
    row, names = listed.row, listed.names
    start = last_row(screen.rows[:row], r"^│ \? ")
    rows = screen.rows[start if start is not None else max(0, row - 12) : row]
    lines = [line for each in rows if (line := unframed(each)) and not is_rule(line)]
    options = tuple(DialogOption(name=n, keys=(str(k),), kind=_KINDS.get(n)) for k, n in enumerate(names, 1))
    return Question(text="\n".join([*lines, *names]), title=(lines[0] if lines else "")[:300], options=options)


# -- the file -------------------------------------------------------------------------------------------------


def transcripts(turn: Turn) -> tuple[str, ...]:
    return (f".gemini/tmp/*/chats/session-*-{turn.agent_session[:8]}.jsonl",) if turn.agent_session else ()


class GeminiTranscript(TranscriptReader):
    """Messages, each written again when more is known of it. None says that the turn is done.

    An answer without a tool call is the last one, and may get one: the title says when it is done.
    """

    tentative = True

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._tokens: dict[str, Record] = {}  # message → what it used
        self._read: set[str] = set()  # messages whose text an event has

    def read(self, record: Record) -> list[AnyEvent]:
        match record.get("type"):
            case "user":
                return self._user_message(_words(record.get("content")))
            case "gemini" if self.prompted:
                return self._agent_message(record)
            case "error" if self.prompted:
                said = _words(record.get("content"))
                self.fail("an error in its file", kind_of(None, said), said[:2000])
            case "info" | "warning" as kind if self.prompted:
                said = _words(record.get("content"))
                self.interrupted = self.interrupted or said.startswith("Request cancelled")
                return [] if self.interrupted else [Notice(text=said, code=kind)]
        return []

    def _user_message(self, said: str) -> list[AnyEvent]:
        if self.prompted or not said or not self.take_prompt(said):
            return []
        self.agent_session = self.turn.agent_session
        return [self.started()]

    def _agent_message(self, record: Record) -> list[AnyEvent]:
        id, calls = text(record.get("id")), tables(record.get("toolCalls"))
        events: list[AnyEvent] = []
        self.model = self.model or text(record.get("model")) or None
        if id not in self._read:
            self._read.add(id)
            thoughts = [text(each.get("description")) for each in tables(record.get("thoughts"))]
            events += [Thought(text=said, id=id) for said in thoughts if said]
            if said := text(record.get("content")):
                events.append(self.whole(said, id))
        for call in calls:
            events += self._call(call)
        self._count(id, table(record.get("tokens")))
        self._judge(bool(calls))
        return [*events, *([UsageReport(usage=self.usage)] if self.usage else [])]

    def _judge(self, goes_on: bool) -> None:
        if goes_on:
            self.result, self.problem = None, None
            self.evidence.clear()
        elif self.result is None and self.text:
            self.succeed("an answer without a tool call")

    def _call(self, call: Record) -> list[AnyEvent]:
        """A call is written once it has ended."""
        id, name, input = text(call.get("id")), text(call.get("name")), call.get("args")
        if id in self._read:
            return []
        self._read.add(id)
        path = text(table(input).get("file_path")) if name in _EDITS else ""
        files = (FileChange(path=path),) if path else ()
        started = ToolStarted(id=id, name=name, title=title_of(name, input), input=input, files=files)
        status = text(call.get("status"))
        ended = ToolEnded(id=id, ok=status == "success", output=_output(call), denied=status == "cancelled")
        return [self.tool_started(started), self.tool_ended(ended)]

    def _count(self, id: str, tokens: Record) -> None:
        self._tokens[id] = tokens
        used = self._tokens.values()
        self.usage = Usage(
            input_tokens=sum(number(each.get("input")) or 0 for each in used),
            output_tokens=sum(number(each.get("output")) or 0 for each in used),
            cached_tokens=sum(number(each.get("cached")) or 0 for each in used),
        )


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(text(part.get("text")) for part in tables(content) if part.get("text"))


def _output(call: Record) -> str:
    for part in tables(call.get("result")):
        response = table(table(part.get("functionResponse")).get("response"))
        if said := text(response.get("output")) or text(response.get("error")):
            return re.sub(r"</?untrusted_context>\n?", "", said).strip()
    return ""
