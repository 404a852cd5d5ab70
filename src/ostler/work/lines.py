"""Events and envelopes as lines for people. Pure: a line is a list of (text, style) spans."""

import re
import shlex
import time
from collections.abc import Sequence

from ostler.terminal.safe import one_line, safe
from ostler.words import (
    Answered,
    AnyEvent,
    Asked,
    Denial,
    Ended,
    Envelope,
    Hook,
    Limited,
    Notice,
    Plan,
    Raw,
    Session,
    Started,
    TerminalClosed,
    TerminalOpened,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    Usage,
    UsageReport,
)
from ostler.work.ask_rules import command_of, paths_of

Span = tuple[str, str]
Line = list[Span]

DIM, BOLD, GOOD, BAD, WARN, CODE = "dim", "bold", "green", "red", "yellow", "cyan"
SHELLS = {"bash", "shell", "run_shell_command", "command_execution", "execute", "exec_command", "terminal"}
MARKS = {"done": ("✓", GOOD), "cancelled": ("■", WARN), "timed_out": ("✗", BAD)}


def plain(line: Line) -> str:
    return "".join(text for text, _ in line)


# -- numbers ----------------------------------------------------------------------------------------


def spoken_duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} m"


def spoken_cost(dollars: float) -> str:
    return f"${dollars:.4f}" if 0 < dollars < 1 else f"${dollars:.2f}"


def spoken_usage(usage: Usage | None) -> str:
    if usage is None:
        return ""
    counts = ((usage.input_tokens, "in"), (usage.output_tokens, "out"))
    return " / ".join(f"{count:,} {word}" for count, word in counts if count is not None)


def spoken_age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "now"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


# -- one turn ---------------------------------------------------------------------------------------


class Story:
    """One turn as it is told: feed it events, print the lines it returns.

    `partial` is text that has no newline yet and `activity` what goes on now: a live view shows
    them below the printed lines, a plain one leaves them out.
    """

    def __init__(self, *, access: str = "", home: str = "", verbose: bool = False, width: int | None = None) -> None:
        self.access, self.home, self.verbose, self.width = access, home, verbose, width
        self.partial = ""
        self.activity = "starting"
        self.step = ""  # of the agent's plan
        self.usage = ""
        self.tools: dict[str, ToolStarted] = {}
        self._streamed: dict[str, list[str]] = {}  # text id → what its deltas said so far
        self._steps: dict[str, str] = {}
        self._terminals: dict[str, str] = {}  # those that were opened, and what they are called
        self._fenced = False
        self._block = ""  # what the last printed line belonged to: a blank line stands between blocks

    def feed(self, event: AnyEvent) -> list[Line]:
        if event.quiet and not self.verbose:
            return []
        match event:
            case TextDelta():
                self.activity = "writing"
                self._streamed.setdefault(event.id, []).append(event.text)
                return self._text(event.text)
            case Text():
                return self._whole(event)
            case ThoughtDelta():
                self.activity = "thinking"
                return []
            case UsageReport():
                cost = spoken_cost(event.cost_usd) if event.cost_usd is not None else ""
                self.usage = " · ".join(filter(None, (spoken_usage(event.usage), cost)))
                return []
            case ToolStarted():
                self.tools[event.id] = event
                self.activity = "working"
                return self.flush()
            case Ended():
                return self.flush()
        block, lines = self._described(event)
        return self._in_block(block, lines) if lines else []

    def begins_block(self, block: str) -> bool:
        return bool(self._block) and self._block != block

    def flush(self) -> list[Line]:
        """The unfinished line of text, finished."""
        rest, self.partial = self.partial, ""
        return self._in_block("text", [self._prose(rest)]) if rest else []

    def _text(self, text: str) -> list[Line]:
        *whole, self.partial = (self.partial + text).split("\n")
        if self.width and len(self.partial) > self.width:
            cut = self.partial.rfind(" ", 0, self.width)
            cut = cut if cut > 0 else self.width
            head, self.partial = self.partial[:cut], self.partial[cut:].lstrip(" ")
            whole.append(head)
            return self._text_lines(whole) + (self._text("") if len(self.partial) > self.width else [])
        return self._text_lines(whole)

    def _text_lines(self, lines: Sequence[str]) -> list[Line]:
        if self._block != "text":  # a block does not begin with blank lines
            while lines and not lines[0].strip():
                lines = lines[1:]
        return self._in_block("text", [self._prose(line) for line in lines]) if lines else []

    def _whole(self, event: Text) -> list[Line]:
        """What of a whole text its deltas have not said."""
        self.activity = "working"
        said = "".join(self._streamed.pop(event.id, ()))
        if event.text.startswith(said):
            return self._text(event.text[len(said) :]) + self.flush()
        lines = self.flush()
        return lines if event.text.strip() == said.strip() else lines + self._text(event.text) + self.flush()

    def _described(self, event: AnyEvent) -> tuple[str, list[Line]]:
        match event:
            case Started():
                self.activity = "thinking"
                return "header", [self._header(event)]
            case Thought():
                return "thought", self._thought(event.text)
            case ToolEnded():
                return "tools", self._tool(event)
            case Plan():
                return "tools", self._plan(event)
            case Limited():
                self.activity = "waiting"
                return "note", [[("! ", WARN), (_limited(event), WARN)]]
            case Notice():
                return "note", [[("note: ", WARN), (one_line(event.text, 400), "")]]
            case Asked():
                self.activity = "asking"
                return "note", asked_lines(event)
            case Answered():
                self.activity = "working"
                return "note", [answered_line(event)]
            case TerminalOpened() if event.terminal not in self._terminals:
                name = self._terminals[event.terminal] = one_line(event.title or event.terminal)
                return "note", [[(f"terminal {name} opened", DIM)]]
            case TerminalClosed():
                name = self._terminals.get(event.terminal) or one_line(event.terminal)
                return "note", [[(f"terminal {name} closed", DIM)]]
            case Raw() if self.verbose:
                return "raw", [[("raw: ", DIM), (one_line(event.line or str(event.record)), DIM)]]
            case Hook() if self.verbose:
                return "raw", [[("hook: ", DIM), (one_line(event.name), DIM)]]
        return "", []

    def _header(self, event: Started) -> Line:
        words = [event.model or "", short_folder(event.folder, self.home), self.access and f"access {self.access}"]
        rest = "".join(f" · {one_line(word)}" for word in words if word)
        return [("● ", CODE), (one_line(event.agent), BOLD), (rest, DIM)]

    def _thought(self, text: str) -> list[Line]:
        if self.verbose:
            return [[("∴ " if not i else "  ", DIM), (safe(line), "dim italic")] for i, line in enumerate(_rows(text))]
        first = one_line(text, self._room(100, 2))
        return [[("∴ ", DIM), (first, "dim italic")]] if first else []

    def _tool(self, event: ToolEnded) -> list[Line]:
        started = self.tools.pop(event.id, None) or ToolStarted(id=event.id, name="tool")
        indent = "    " if started.parent else "  "
        mark: Span = ("✓ ", GOOD) if event.ok else ("✗ ", BAD)
        line: Line = [(indent, ""), mark, *tool_words(started, self._room(100, 40))]
        if size := diff_size(event.diff):
            line.append((f"  {size}", DIM))
        if event.exit_code:
            line.append((f"  exit {event.exit_code}", BAD))
        if event.denied:
            line.append(("  refused", BAD))
        if event.duration_ms is not None:
            line.append((f"  {spoken_duration(event.duration_ms / 1000)}", DIM))
        return [line, *([(f"{indent}  {row}", DIM)] for row in self._output(started, event))]

    def _output(self, started: ToolStarted, event: ToolEnded) -> list[str]:
        """The last rows of what a failed tool or a command said; of all tools when verbose."""
        told = self.verbose or not event.ok or event.exit_code is not None or started.name.lower() in SHELLS
        rows = [safe(row.expandtabs(4))[: self._room(200, 6)] for row in _rows(event.output)] if told else []
        most = 40 if self.verbose else 5
        return rows if len(rows) <= most + 1 else [f"… {len(rows) - most:,} lines before", *rows[-most:]]

    def _room(self, most: int, taken: int) -> int:
        """How many characters fit in a row beside those taken."""
        return min(most, max(20, self.width - taken)) if self.width else most

    def _plan(self, event: Plan) -> list[Line]:
        """A new plan whole, of a known one what has been done or is new; the status names what is next."""
        marks = {"done": ("☑ ", GOOD), "active": ("▸ ", CODE), "pending": ("☐ ", DIM)}
        before, self._steps = self._steps, {step.text: step.status for step in event.steps}
        self.step = next((one_line(step.text, 60) for step in event.steps if step.status == "active"), "")
        told = [s for s in event.steps if s.text not in before or (s.status == "done" and before[s.text] != "done")]
        return [[("  ", ""), marks[s.status], (one_line(s.text), "" if s.status == "active" else DIM)] for s in told]

    def _prose(self, line: str) -> Line:
        """A line of the answer, its Markdown lightly coloured, its words untouched."""
        line = safe(line)
        if line.lstrip().startswith("```"):
            self._fenced = not self._fenced
            return [(line, DIM)]
        if self._fenced:
            return [(line, CODE)]
        if line.startswith("#"):
            return [(line, BOLD)]
        parts = _MARKED.split(line)  # plain and marked ones in turn
        return [(p, "" if i % 2 == 0 else CODE if p[0] == "`" else BOLD) for i, p in enumerate(parts) if p]

    def _in_block(self, block: str, lines: list[Line]) -> list[Line]:
        before: list[Line] = [[]] if self.begins_block(block) else []
        self._block = block
        return before + lines


_MARKED = re.compile(r"(`[^`]+`|\*\*[^*`]+\*\*)")  # `code` and **bold**, with their marks


def _rows(text: str) -> list[str]:
    return text.replace("\r\n", "\n").strip("\n").split("\n") if text.strip() else []


def tool_words(started: ToolStarted, limit: int = 100) -> Line:
    title = one_line(started.title or ", ".join(file.path for file in started.files), limit)
    return [(one_line(started.name, 40), BOLD), (f" {title}" if title else "", "")]


def asked_lines(event: Asked) -> list[Line]:
    """What an agent asks for: the tool, the command or files, and its own reason."""
    what = one_line(subject(event), 300)
    line: Line = [("? ", WARN), (one_line(event.tool, 40), BOLD)]
    line.append((f" asks: {what}" if what else " asks for permission", ""))
    if size := diff_size(event.diff):
        line.append((f"  {size}", DIM))
    reason = one_line(event.reason, 300)
    return [line, [("  ", ""), (reason, DIM)]] if reason and reason != what else [line]


def subject(event: Asked) -> str:
    """What it is about: a command, files, or what the agent calls it."""
    return command_of(event.input) or event.title or ", ".join(dict.fromkeys(paths_of(event)))


def answered_line(event: Answered) -> Line:
    word, style = _ANSWERS.get(event.option, (one_line(event.option), DIM))
    return [("? ", WARN), (word, style), (f" by {one_line(event.by)}", DIM)]


_ANSWERS = {
    "allow_once": ("allowed", GOOD),
    "allow_always": ("always allowed", GOOD),
    "reject_once": ("denied", BAD),
    "reject_always": ("always denied", BAD),
    "cancelled": ("not answered: ended", DIM),
}


def _limited(event: Limited) -> str:
    words = one_line(event.message, 300) or {"limited": "held up by a limit"}.get(event.error, event.error)
    more = [f"attempt {event.attempt}"] if event.attempt is not None else []
    if event.retry_in is not None:
        more.append(f"again in {spoken_duration(event.retry_in)}")
    elif event.retry_at is not None:
        more.append(f"again at {time.strftime('%H:%M:%S', time.localtime(event.retry_at))}")
    return f"{event.error}: {words}" + (f" ({', '.join(more)})" if more else "")


def short_folder(folder: str, home: str) -> str:
    if home and (folder == home or folder.startswith(home + "/")):
        return "~" + folder[len(home) :]
    return folder


def diff_size(diff: str) -> str:
    rows = diff.splitlines()
    plus = sum(row.startswith("+") and not row.startswith("+++") for row in rows)
    minus = sum(row.startswith("-") and not row.startswith("---") for row in rows)
    return f"+{plus} −{minus}" if plus or minus else ""


# -- the end of a turn ------------------------------------------------------------------------------


def ending(envelope: Envelope, diff: str = "") -> list[Line]:
    """The last lines: how it went, what changed, what was refused, how to go on."""
    return [
        status(envelope),
        *_error_lines(envelope),
        *_changes(diff),
        *([(f"left running, ended: {one_line(name)}", WARN)] for name in envelope.leaked),
        *(refusal(denial) for denial in envelope.denied),
        *([continue_line(envelope.name or envelope.session)] if envelope.agent != "exec" else []),
    ]


def continue_line(key: str) -> Line:
    return [("continue: ", DIM), (f'ostler run --session {shlex.quote(one_line(key))} "…"', "")]


def status(envelope: Envelope) -> Line:
    mark, style = MARKS.get(envelope.outcome, ("✗", BAD))
    word = envelope.outcome.replace("_", " ")
    if envelope.error and envelope.error.kind not in (envelope.outcome, "crashed"):
        word += f" ({envelope.error.kind})"
    numbers = [
        spoken_duration(envelope.duration_ms / 1000),
        spoken_usage(envelope.usage),
        spoken_cost(envelope.cost_usd) if envelope.cost_usd is not None else "",
        counted(envelope.steps, "step") if envelope.steps is not None else "",
    ]
    return [(f"{mark} {word}", style), ("".join(f" · {number}" for number in numbers if number), DIM)]


def _error_lines(envelope: Envelope) -> list[Line]:
    error = envelope.error
    if error is None or (error.message == error.kind and not error.hint):
        return []
    lines: list[Line] = [[("  " + one_line(error.message, 1000), "")]]
    return [*lines, [("  " + one_line(error.hint, 1000), DIM)]] if error.hint else lines


def _changes(diff: str) -> list[Line]:
    """The files of a diff: `app.py +3 −1`, at most ten of them."""
    files = [part for part in ("\n" + diff).split("\ndiff --git ")[1:] if part]
    if not files:
        return []
    lines: list[Line] = [[(f"  {counted(len(files), 'file')} changed", "")]]
    for part in files[:10]:
        head, _, body = part.partition("\n")
        name = one_line(head.split(" b/", 1)[-1], 120)
        kind = "new " if "\nnew file mode" in "\n" + body else "deleted " if "\ndeleted file" in "\n" + body else ""
        lines.append([("    ", ""), (name, ""), (f"  {kind}{diff_size(body)}", DIM)])
    return [*lines, [(f"    and {len(files) - 10} more", DIM)]] if len(files) > 10 else lines


def refusal(denial: Denial) -> Line:
    what = one_line(f"{denial.tool} {denial.target}", 300)
    if denial.access:
        return [("refused: ", BAD), (what, ""), (f" — run again with --access {denial.access}", DIM)]
    return [("refused: ", BAD), (what, ""), (f" — {one_line(denial.reason)}" if denial.reason else "", DIM)]


# -- tables -----------------------------------------------------------------------------------------


def session_rows(sessions: Sequence[Session], now: float, home: str) -> list[tuple[str, ...]]:
    return [
        (
            s.name or s.id,
            one_line(s.agent),
            s.state,
            counted(s.turns, "turn"),
            spoken_age(now - s.used_at),
            one_line(short_folder(s.folder, home), 50),
            one_line(s.title, 60),
        )
        for s in sessions
    ]


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows in aligned columns, without trailing blanks."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
