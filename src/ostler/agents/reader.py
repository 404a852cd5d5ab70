"""A reader makes events of an agent's records, and judges how a turn went: the rule of proof.

Pure: no I/O, no clock.
"""

import re
from typing import Any, Literal

import msgspec

from ostler.agents.failures import API_ERROR, is_brief, kind_of, last_line, spoken
from ostler.agents.values import Record
from ostler.errors import ErrorKind, quoted
from ostler.model import (
    AnyEvent,
    Denial,
    Exit,
    Problem,
    Raw,
    Started,
    Text,
    ToolEnded,
    ToolStarted,
    Turn,
    Usage,
    Verdict,
)


class Reader:
    """Reads one turn's records. Subclasses write `read`; `end` is the rule of proof.

    `result` stays None until the agent itself says how the turn ended.
    """

    joins_lines = False  # text of several lines that come at once is one event
    silence_counts = False  # a success without an answer is one, also where no tokens are told

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.agent_session: str | None = None
        self.model: str | None = None
        self.text = ""  # the final answer so far
        self.structured: Any = None
        self.usage: Usage | None = None
        self.cost_usd: float | None = None
        self.cumulative = False
        self.steps: int | None = None
        self.denied: list[Denial] = []
        self.evidence: list[str] = []
        self.result: Literal["ok", "error"] | None = None
        self.problem: Problem | None = None
        self.open_tools: dict[str, ToolStarted] = {}
        self.acted = False  # a tool was called
        self.spent: tuple[int, int] | None = None  # tokens of this turn, in and out, where records tell them apart

    def read(self, record: Record) -> list[AnyEvent]:
        """Events of one record. Unknown records give [Raw(record=record)]."""
        raise NotImplementedError

    def read_line(self, line: bytes) -> list[AnyEvent]:
        """Events of one line of stdout. Text between the records is kept as it is."""
        record = decode(line)
        if isinstance(record, dict):
            return self.read(record)
        return [Raw(line=line.decode("utf-8", "replace"))] if line.strip() else []

    def read_stderr(self, line: str) -> list[AnyEvent]:
        """Events of one line of stderr: most agents only log there."""
        return []

    def flush(self) -> list[AnyEvent]:
        """Events still owed when the stream ends: whole texts of deltas, tools that never ended."""
        return [self.tool_ended(ToolEnded(id=id, ok=False, output="")) for id in list(self.open_tools)]

    def end(self, exit: Exit | None, stderr_tail: str) -> Verdict:
        """The verdict; `exit` is None when the process had to be ended after its result."""
        error = self._error(exit, stderr_tail)
        if error is None:
            return self._verdict("done", None)
        return self._verdict(OUTCOMES.get(error.kind, "failed"), error)

    # -- for subclasses

    def started(self) -> Started:
        return Started(
            agent=self.turn.agent,
            agent_session=self.agent_session,
            model=self.model,
            folder=self.turn.folder,
        )

    def whole(self, text: str, id: str = "") -> Text:
        self.text = text
        return Text(text=text, id=id)

    def tool_started(self, event: ToolStarted) -> ToolStarted:
        self.open_tools[event.id] = event
        self.acted = True
        return event

    def tool_ended(self, event: ToolEnded) -> ToolEnded:
        self.open_tools.pop(event.id, None)
        return event

    def succeed(self, evidence: str) -> None:
        """The agent says that it is done. That counts where its model had a part in it."""
        if problem := self._empty():
            self.fail(evidence, problem.kind, problem.message, problem.hint)
            return
        self.result = "ok"
        self.evidence.append(evidence)

    def fail(self, evidence: str, kind: ErrorKind, message: str, hint: str = "") -> None:
        self.result = "error"
        self.evidence.append(evidence)
        self.problem = Problem(kind=kind, message=message or kind, hint=hint)

    def hint(self, kind: ErrorKind) -> str:
        """What to do about an error of that kind."""
        return ""

    # -- the rule of proof

    def _empty(self) -> Problem | None:
        """What is wrong with a success for which no model did anything: no tool was called, no token came out.

        Several CLIs tell an error of the API as their answer. A model may quote one, but that costs tokens; where
        none are told at all (not every agent does) an answer that begins like one is one. Where the agent tells
        that there were none, no answer is proof: some servers, mostly local ones, do not count, but nothing sets
        their turns apart from those that never reached a model. With `done_pattern` the answer itself is the proof.
        """
        if self.acted or self.turn.command:
            return None
        given, made = self.spent or self._own_tokens()
        if made:
            return None
        if re.match(API_ERROR, self.text):
            kind, said = kind_of(None, self.text), self.text.strip().removeprefix("[").removesuffix("]")
            return Problem(kind=kind, message=said[:2000], hint=self.hint(kind))
        if made == 0 and not (self.turn.done_pattern and self.is_done()):
            if (kind := kind_of(None, self.text)) in ("limited", "overloaded") and is_brief(self.text):
                return Problem(kind=kind, message=self.text.strip(), hint=self.hint(kind))
            message = SAID_NOTHING.format(self.turn.agent)
            proof = "set done_pattern in a profile; a matching answer then counts as proof"
            hint = f"If your model server does not count tokens, {proof}"
            return Problem(kind="unproven", message=message, hint=hint if self.text and not given else "")
        return None

    def _own_tokens(self) -> tuple[int | None, int | None]:
        if self.usage is None or (self.cumulative and self.turn.resume):  # those of turns before are among them
            return None, None
        return self.usage.input_tokens, self.usage.output_tokens

    def _error(self, exit: Exit | None, stderr_tail: str) -> Problem | None:
        turn = self.turn
        if self.result == "error":
            return self.problem
        if self.result is None:
            return self.no_result(exit, stderr_tail)
        if turn.resume and not turn.fork and self.agent_session not in (None, turn.agent_session):
            # Several CLIs answer a bad resume id with a new conversation and exit 0.
            return Problem(
                kind="not_found",
                message=f"{turn.agent} was asked to resume {turn.agent_session}, but began {self.agent_session}",
                hint="Start a new session",
            )
        if exit is not None and not exit.ok:
            return Problem(kind="crashed", message=f"{turn.agent} reported success but ended with {spoken(exit)}")
        if turn.done_pattern and not self.is_done():
            message = f"{turn.agent} finished, but no line of its answer matches {quoted(turn.done_pattern)}"
            return Problem(kind="unproven", message=message, hint="Check its answer, or change done_pattern")
        if self._is_silent():
            hint = "Is it logged in? Try `ostler doctor`"
            return Problem(kind="unproven", message=SAID_NOTHING.format(turn.agent), hint=hint)
        return None

    def _is_silent(self) -> bool:
        """No tokens are told, and there is nothing else that a model can have done. Looked at last: some of it is told
        after the agent's word of success.
        """
        if self.silence_counts or self.turn.command or self.acted or self.denied:
            return False
        _, made = self.spent or self._own_tokens()
        return made is None and not self.text.strip() and self.structured is None

    def is_done(self) -> bool:
        """Whether a line of the answer matches the turn's `done_pattern`."""
        return any(re.search(self.turn.done_pattern, line) for line in self.text.splitlines())

    def no_result(self, exit: Exit | None, stderr_tail: str) -> Problem:
        """The process ended and the agent never said how the turn went."""
        said = last_line(stderr_tail)
        if exit is None or exit.ok:
            return Problem(
                kind="unproven",
                message=f"{self.turn.agent} ended without a result" + (f": {said}" if said else ""),
            )
        if exit.signal is not None:
            return Problem(kind="crashed", message=f"{self.turn.agent} was ended by {spoken(exit)}")
        kind = kind_of(None, stderr_tail)
        return Problem(kind=kind, message=said or f"{self.turn.agent} ended with {spoken(exit)} and no result")

    def _verdict(self, outcome: Any, error: Problem | None) -> Verdict:
        return Verdict(
            outcome=outcome,
            error=error,
            evidence=tuple(self.evidence),
            text=self.text,
            structured=self.structured,
            agent_session=self.agent_session,
            model=self.model,
            usage=self.usage,
            cost_usd=self.cost_usd,
            cumulative=self.cumulative,
            steps=self.steps,
            denied=tuple(self.denied),
        )


SAID_NOTHING = "{} says it is done, but its model said nothing"
OUTCOMES: dict[ErrorKind, str] = {
    "crashed": "crashed",
    "unproven": "unproven",
    "cancelled": "cancelled",
    "timed_out": "timed_out",
}


# -- decoding ---------------------------------------------------------------------------------------

_decode = msgspec.json.Decoder().decode


def decode(line: bytes) -> Any:
    """The JSON value of a line, or None where it is not JSON (then it is a raw event)."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        return _decode_leniently(line)


def _decode_leniently(line: bytes) -> Any:
    """A second look: invalid UTF-8 and lone surrogates must not cost a whole record."""
    if line.lstrip()[:1] != b"{":
        return None
    text = line.decode("utf-8", "replace")
    text = re.sub(r"\\u[dD][89aAbB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])", r"\\ufffd", text)
    text = re.sub(r"(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}", r"\\ufffd", text)
    try:
        return _decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        return None
