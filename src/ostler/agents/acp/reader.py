"""What an ACP agent tells during a turn, as events. Lenient: a bad optional field costs that field alone."""

import re
from typing import Any, get_args

from ostler.access import Access, suffices
from ostler.agents.acp.asks import diffs_of, edited_paths, needed
from ostler.agents.acp.meter import Meter
from ostler.agents.acp.protocol import ERRORS, TOOLS, Acp
from ostler.agents.failures import kind_of
from ostler.agents.reader import Reader
from ostler.agents.tool_input import title_of
from ostler.agents.values import Record, number, table, tables, text
from ostler.errors import ErrorKind
from ostler.model import (
    AnyEvent,
    Denial,
    Exit,
    FileChange,
    LimitedBy,
    Plan,
    PlanStep,
    Problem,
    Raw,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    UsageReport,
)

MAX_SHOWN = 1 << 20  # characters
STATUS: dict[Any, Any] = {"in_progress": "active", "completed": "done"}
# What an agent tells of itself; the dialog keeps it, the journal does not need it.
STATE = frozenset(
    (
        *("available_commands_update", "current_mode_update", "config_option_update", "session_info_update"),
        *("user_message_chunk", "usage_update"),
    )
)
STOPS: dict[str, tuple[ErrorKind, str]] = {
    "refusal": ("denied", "the model refused to answer"),
    "max_tokens": ("over_budget", "the answer reached the token limit"),
    "max_turn_requests": ("over_budget", "the turn reached the request limit"),
    "cancelled": ("cancelled", "cancelled"),
}


class AcpReader(Reader):
    """Events of `session/update`, and the verdict of a stop reason."""

    def __init__(self, turn: Turn, acp: Acp | None = None, meter: Meter | None = None) -> None:
        super().__init__(turn)
        self.acp = acp or Acp()
        self.meter = meter or Meter(self.acp, new=not turn.resume)
        self.calls: dict[str, Record] = {}  # tool calls that have not ended, each as all its updates make it
        self.done: set[str] = set()  # those that have
        self.worked = False  # something came that only a model can have said
        self.failed = False  # the agent told that the turn failed: what it says now is the error
        self._wrong: list[str] = []  # which is this
        self._said: list[str] = []
        self._thought: list[str] = []

    def read(self, update: Record) -> list[AnyEvent]:
        """Events of one update."""
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            return self._chunk(update, self._said, TextDelta)
        if kind == "agent_thought_chunk":
            return self._chunk(update, self._thought, ThoughtDelta)
        if kind == "tool_call" or kind == "tool_call_update":
            self.worked = True
            return [*self._owed(), *self.tool(update)]
        if kind == "plan":
            return [_plan_of(update)]
        if kind == "usage_update":
            self.meter.take(update)
        if kind == "session_info_update":
            return self._info(update)
        return [] if kind in STATE else [Raw(record=update)]

    def flush(self) -> list[AnyEvent]:
        return [*self._owed(), *super().flush()]

    # -- ends

    def stopped(self, result: Record) -> list[AnyEvent]:
        """The answer to the prompt: it ends the turn."""
        whole = len(self._said) == 1  # it came in one piece, as what a program says does
        events, reason = self._owed(), text(result.get("stopReason"))
        self.usage, self.cost_usd = self.meter.turn(result)
        if self.acp.always_counts and "usage" in result and self.usage is None:
            self.spent = 0, 0
        if self.failed and reason == "end_turn":
            self._failed()
        elif said := self._marked(whole):
            self.fail("an error for an answer", kind_of(None, said), said[:2000])
        elif reason == "end_turn" and (self.worked or self.usage is not None):
            self.succeed("stop reason end_turn")
        elif reason == "end_turn":
            # copilot answers a refused key like this: nothing was said, nothing was done.
            message = f"{self.turn.agent} ended the turn without an answer"
            self.fail("empty end_turn", "unproven", message, "Is it logged in? Try `ostler doctor`")
        elif reason == "cancelled" and self.denied:
            # codex-acp has no other no. Where somebody did cancel the turn, that is told instead.
            refused = self.denied[-1]
            self.fail("stop reason cancelled", "denied", f"{self.turn.agent} stopped: {refused.tool} was refused")
        else:
            kind, message = STOPS.get(reason, ("unproven", f"{self.turn.agent} stopped: {reason[:100] or 'no reason'}"))
            self.fail(f"stop reason {reason[:100]}", kind, message)
        return [*events, *([UsageReport(usage=self.usage, cost_usd=self.cost_usd)] if self.usage else [])]

    def _marked(self, whole: bool) -> str:
        """The error that stands for an answer, by its beginning; after work of a model, by its words as well."""
        mark = self.acp.error_mark
        if not mark or not self.text.startswith(mark):
            return ""
        said = self.text.removeprefix(mark)
        clear = whole and kind_of(None, said) in get_args(LimitedBy)
        return said if self.usage is None or clear else ""

    def _failed(self) -> None:
        """codex-acp ends a turn as any other when its model's server failed, with the error for an answer."""
        said = ("".join(self._wrong) or self.text).strip()
        kind = kind_of(None, said)
        message = said or f"{self.turn.agent} says that the turn failed"
        self.fail("the agent's own state, an error", "unproven" if kind == "crashed" else kind, message[:2000])

    def refused(self, error: Record, login: str = "") -> list[AnyEvent]:
        """An error instead of an answer."""
        kind, said = judged(error)
        hint = login or f"Log in to {self.turn.agent}"
        self.fail(f"error {error.get('code')}", kind, said, hint if kind == "unauthenticated" else "")
        return self._owed()

    def no_result(self, exit: Exit | None, stderr_tail: str) -> Problem:
        """A dialog's process ended in the middle of a turn, whatever its exit code."""
        problem = super().no_result(exit, stderr_tail)
        if problem.kind == "unproven":
            return Problem(kind="crashed", message=f"{self.turn.agent} ended in the middle of the turn")
        return problem

    # -- words

    def _info(self, update: Record) -> list[AnyEvent]:
        """What it tells of its own state."""
        failed, retrying = self.acp.failed(update), self.acp.retrying(update)
        self.failed = self.failed if failed is None else failed
        return [*self._owed(), retrying] if retrying is not None else []

    def _chunk(self, update: Record, kept: list[str], delta: type[TextDelta] | type[ThoughtDelta]) -> list[AnyEvent]:
        content = update.get("content")
        if not isinstance(content, dict) or content.get("type") != "text":
            return [Raw(record=update)]
        piece = content.get("text")
        if not isinstance(piece, str) or not piece:
            return []
        if (aside := self.acp.aside(piece)) is not None:
            return [aside]
        if self.failed and kept is self._said:
            self._wrong.append(piece)
            return []
        self.worked = True
        kept.append(piece)
        if kept is self._said and self._thought:
            return [self._thoughts(), delta(text=piece)]
        return [delta(text=piece)]

    def _thoughts(self) -> Thought:
        whole, self._thought = "".join(self._thought), []
        return Thought(text=whole)

    def _owed(self) -> list[AnyEvent]:
        """Whole texts of the deltas so far."""
        events: list[AnyEvent] = [self._thoughts()] if self._thought else []
        if self._said:
            whole, self._said = "".join(self._said), []
            events.append(self.whole(whole))
        return events

    # -- tools

    def tool(self, update: Record) -> list[AnyEvent]:
        """A tool call, or a part of it that is new."""
        id = text(update.get("toolCallId"))
        if not id:
            return [Raw(record=update)]
        if id in self.done:
            return []
        call = self.calls.setdefault(id, {"firstTitle": update.get("title")})
        call.update({name: value for name, value in update.items() if value is not None and name != "sessionUpdate"})
        if "_meta" in update:
            _keep_shown(call, table(update["_meta"]))
        events: list[AnyEvent] = []
        if id not in self.open_tools and self._has_details(call):
            events.append(self.tool_started(self._started(id, call)))
        if call.get("status") in ("completed", "failed"):
            events.append(self._ended(id, call))
        return events

    def asked_about(self, call: Record) -> list[AnyEvent]:
        """The call of a permission request begins there, if it did not before; its own words count more."""
        known = self.calls.get(text(call.get("toolCallId")), {})
        own = known if self._has_details(known) else {"kind": known.get("kind") or call.get("kind")}
        return self.tool({**call, **own, "title": call.get("title"), "status": "in_progress"})

    def rejected(self, call: Record, reason: str, access: Access | None = None) -> list[AnyEvent]:
        """A call that was not allowed: gemini says no more of it. `access`: what would do; None: somebody said no."""
        id = text(call.get("toolCallId"))
        self._denied(call, reason, access)
        if id not in self.open_tools:
            return []
        self._forget(id)
        return [self.tool_ended(ToolEnded(id=id, ok=False, output=reason, denied=True))]

    def _has_details(self, call: Record) -> bool:
        """Whether it says enough to be shown: some agents announce a call before its input is there."""
        name, input = self.acp.tool(call)
        has_content = any(each.get("type") != "terminal" for each in tables(call.get("content")))
        return call.get("status") not in (None, "pending") or has_content or bool(title_of(name, input))

    def _started(self, id: str, call: Record) -> ToolStarted:
        name, input = self.acp.tool(call)
        title = (title_of(name, input) or text(call.get("title")))[:200]
        files = tuple(FileChange(path=path) for path in dict.fromkeys(edited_paths(call)))
        category = TOOLS.get(text(call.get("kind")), "")
        return ToolStarted(id=id, name=name, category=category, title=title, input=input, files=files)

    def _ended(self, id: str, call: Record) -> ToolEnded:
        self._forget(id)
        diffs, exit, output = diffs_of(call, self.turn.folder), exit_of(call), output_of(call)
        ok = call.get("status") == "completed" and exit in (None, 0)
        denied = not ok and self.acp.denied(call, output)
        if denied:
            access = needed(call, self.turn.folder, self.turn.walled)
            self._denied(call, output, None if suffices(self.turn.access, access) else access)
        return self.tool_ended(
            ToolEnded(
                id=id,
                ok=ok,
                output=output,
                diff="".join(diff for _, diff in diffs) if ok else "",
                files=tuple(FileChange(path=path) for path in dict.fromkeys(edited_paths(call))) if ok else (),
                exit_code=exit,
                denied=denied,
            )
        )

    def _denied(self, call: Record, reason: str, access: Access | None) -> None:
        """Keeps the refusal, with the access that would do."""
        name, input = self.acp.tool(call)
        target = title_of(name, input) or text(call.get("title"))[:200]
        self.denied.append(Denial(tool=name, target=target, access=access, reason=reason[:500]))

    def _forget(self, id: str) -> None:
        self.calls.pop(id, None)
        self.done.add(id)


def judged(error: Record) -> tuple[ErrorKind, str]:
    """The kind of an error, and what it says; agents put their words, and the status of their model, anywhere."""
    data = table(error.get("data"))
    outer, inner = text(error.get("message")), text(data.get("details")) or text(data.get("message"))
    code = number(error.get("code")) or 0
    kind = ERRORS.get(code)
    status = code if 400 <= code < 600 else number(data.get("code"))
    # "401 Incorrect API key" is how the SDKs of model servers begin; opencode has only the server's own words.
    number_in = _BARE.search(outer) if data.get("errorName") == "APIError" else _BARE.match(inner)
    if status is None and number_in is not None:
        status = int(number_in[1])
    return kind or kind_of(status, f"{outer} {inner}"), (inner or outer or "refused")[:2000]


_BARE = re.compile(r"(?<![\w.:/-])(40[01348]|413|422|429|50[0234]|529)(?![\w:/-]|\.\d)")


def output_of(call: Record) -> str:
    said = [
        text(table(content.get("content")).get("text"))
        for content in tables(call.get("content"))
        if content.get("type") == "content"
    ]
    raw = call.get("rawOutput")
    whole = "\n".join(part for part in said if part) or "".join(call.get("shown", ()))
    return whole or text(raw) or next((text(table(raw).get(name)) for name in _OUTPUTS if table(raw).get(name)), "")


_OUTPUTS = ("output", "content", "message", "error", "aggregated_output")


def _keep_shown(call: Record, meta: Record) -> None:
    """What a command of the agent's own terminal printed, where the call's content only names the terminal."""
    for name in ("terminal_output", "terminal_output_delta"):
        piece, kept = text(table(meta.get(name)).get("data")), call.get("shownSize", 0)
        if piece and kept < MAX_SHOWN:
            call.setdefault("shown", []).append(piece)
            call["shownSize"] = kept + len(piece)


def exit_of(call: Record) -> int | None:
    """The exit code of a command, wherever an agent tells it."""
    raw = table(call.get("rawOutput"))
    codes = (
        *(table(raw.get("metadata")).get("exit"), raw.get("exit_code"), raw.get("exitCode")),
        *(content.get("exitCode") for content in tables(raw.get("contents"))),
        table(table(call.get("_meta")).get("terminal_exit")).get("exit_code"),
    )
    return next((code for code in codes if isinstance(code, int) and not isinstance(code, bool)), None)


def _plan_of(update: Record) -> Plan:
    steps = [
        PlanStep(text=text(entry.get("content")), status=STATUS.get(text(entry.get("status")), "pending"))
        for entry in tables(update.get("entries"))
    ]
    return Plan(steps=tuple(steps))
