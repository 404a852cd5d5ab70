"""qwen's own screen, and the file that it keeps of a conversation (`~/.qwen/projects/…/chats/ID.jsonl`)."""

import re
from typing import Any

from msgspec import structs

from ostler.access import Access
from ostler.agents.tool_input import title_of
from ostler.agents.tui import (
    DialogOption,
    Question,
    Status,
    TranscriptReader,
    TuiScreen,
    last_row,
    numbered,
    unframed,
)
from ostler.agents.values import Record, number, table, tables, text
from ostler.model import AnyEvent, AskOptionKind, FileChange, Launch, ToolEnded, ToolStarted, Turn, Usage, UsageReport

MODES: dict[Access, str] = {"read": "default", "write": "auto-edit", "full": "default"}  # under full it asks
PLACEHOLDER = "Type your message"
INTERRUPTED = r"●\s+Request cancelled"
_RULE = r"^─{20,}"
_HEADLESS = ("--output-format=", "--include-partial-messages", "--approval-mode=", "--json-schema=")
_SCROLLBAR = re.compile(r"\s*█\s*$")
_EDITS = ("write_file", "edit")
# What is kept in its settings is for a person at the terminal.
_KINDS: dict[str, AskOptionKind] = {"Yes, allow once": "allow_once", "No, suggest changes (esc)": "reject_once"}


def tui_launch(once: Launch, turn: Turn) -> Launch:
    """The tools of one turn; the mode is explicit, and under `full` it asks."""
    flags = [flag for flag in once.argv[1:] if not flag.startswith(_HEADLESS)]
    argv = (once.argv[0], f"--approval-mode={MODES[turn.access]}", *flags)
    return structs.replace(once, argv=argv, stdin=b"")


# -- the screen -----------------------------------------------------------------------------------------------


def _rows(screen: TuiScreen) -> tuple[str, ...]:
    """Without the bar that it draws at the right where there is more than fits."""
    return tuple(_SCROLLBAR.sub("", row) for row in screen.rows)


def box(screen: TuiScreen) -> str | None:
    """What stands after > between the two lowest lines; a dialog takes its place."""
    if question(screen) is not None or (found := _box_rows(screen)) is None:
        return None
    rows = [row.strip(" \u200b") for row in screen.rows[found[0] : found[1]]]
    inside = "\n".join((rows[0].lstrip(">!*").strip(" \u200b"), *rows[1:])).strip()
    return "" if inside.startswith(PLACEHOLDER) else inside


def _box_rows(screen: TuiScreen) -> tuple[int, int] | None:
    foot = last_row(screen.rows, _RULE)
    head = None if foot is None else last_row(screen.rows[:foot], _RULE)
    if foot is None or head is None or not re.match(r"[>!*] ", screen.rows[head + 1]):
        return None
    return head + 1, foot


def is_busy(screen: TuiScreen) -> bool:
    return last_row(screen.rows, r"\besc to cancel\)") is not None


def answer_ends(screen: TuiScreen) -> int | None:
    found = _box_rows(screen)
    return found[0] - 1 if found else None


def title_status(title: str) -> Status | None:
    """Its name alone while it waits for a prompt, and a mark before that otherwise."""
    return {"◐": "busy", "◑": "busy", "✳": "asking", "Q": "ready"}.get(title[:1])  # type: ignore[return-value]


def question(screen: TuiScreen) -> Question | None:
    rows = _rows(screen)
    listed = numbered(rows)
    if listed is None or last_row(rows[listed.row :], r"^[>!*] ") is not None:
        return None  # a list of the conversation: below a dialog there is no box
    start = last_row(rows[: listed.row], r"^\s*\? ")
    lines = [line for row in rows[start if start is not None else max(0, listed.row - 12) : listed.row]
             if (line := unframed(row))]  # fmt: skip
    options = tuple(DialogOption(name=n, keys=(str(k),), kind=_KINDS.get(n)) for k, n in enumerate(listed.names, 1))
    return Question(text="\n".join([*lines, *listed.names]), title=(lines[0] if lines else "")[:300], options=options)


# -- the file -------------------------------------------------------------------------------------------------


def transcripts(turn: Turn) -> tuple[str, ...]:
    return (f".qwen/projects/*/chats/{turn.agent_session}.jsonl",) if turn.agent_session else ()


class QwenTranscript(TranscriptReader):
    """Messages in Gemini's shape. An answer without a tool call is the last one; a no ends the turn."""

    tentative = True

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._used: list[Record] = []

    def read(self, record: Record) -> list[AnyEvent]:
        parts = tables(table(record.get("message")).get("parts"))
        match record.get("type"):
            case "user":
                return self._user_record(record, _words(parts))
            case "assistant" if self.prompted:
                return self._model_record(record, parts)
            case "tool_result" if self.prompted:
                return self._tool_result(parts, table(record.get("toolCallResult")))
        return []

    def _user_record(self, record: Record, said: str) -> list[AnyEvent]:
        if self.prompted or not said or not self.take_prompt(said):
            return []
        self.agent_session = text(record.get("sessionId")) or self.turn.agent_session
        return [self.started()]

    def _model_record(self, record: Record, parts: list[Record]) -> list[AnyEvent]:
        """One that was cut off has no figures: it is no answer."""
        self.model = self.model or text(record.get("model")) or None
        used, calls = table(record.get("usageMetadata")), [call for part in parts if (call := part.get("functionCall"))]
        events: list[AnyEvent] = []
        if said := _words(parts):
            events.append(self.whole(said, text(record.get("uuid"))))
        for call in tables(calls):
            events.append(self._call(call))
        if used:
            self._used.append(used)
            self.usage = self._sum()
            events.append(UsageReport(usage=self.usage))
        if calls or not used:
            self.result, self.problem = None, None
            self.evidence.clear()
        elif self.result is None:
            self.succeed("an answer without a tool call")
        return events

    def _call(self, call: Record) -> AnyEvent:
        name, input = text(call.get("name")), call.get("args")
        path = text(table(input).get("file_path")) if name in _EDITS else ""
        files = (FileChange(path=path),) if path else ()
        started = ToolStarted(id=text(call.get("id")), name=name, title=title_of(name, input), input=input, files=files)
        return self.tool_started(started)

    def _tool_result(self, parts: list[Record], result: Record) -> list[AnyEvent]:
        status, id = text(result.get("status")), text(result.get("callId"))
        denied = status == "cancelled"
        self.interrupted = self.interrupted or denied
        output = "\n".join(_output(table(part.get("functionResponse"))) for part in parts)
        return [self.tool_ended(ToolEnded(id=id, ok=status == "success", output=output, denied=denied))]

    def _sum(self) -> Usage:
        def total(name: str) -> int:
            return sum(number(each.get(name)) or 0 for each in self._used)

        return Usage(
            input_tokens=total("promptTokenCount"),
            output_tokens=total("candidatesTokenCount"),
            cached_tokens=total("cachedContentTokenCount"),
        )


def _words(parts: list[Record]) -> str:
    return "\n".join(text(part.get("text")) for part in parts if part.get("text") and not part.get("thought"))


def _output(response: Record) -> str:
    said: dict[str, Any] = table(response.get("response"))
    return text(said.get("output")) or text(said.get("error"))
