"""Renders one turn for people: events in, lines out. Pure."""

import re
import time
from collections.abc import Sequence

from ostler.model import (
    Answered,
    AnyEvent,
    Asked,
    Ended,
    Forwarded,
    Hook,
    Limited,
    Notice,
    Plan,
    Raw,
    Started,
    TerminalClosed,
    TerminalOpened,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
    UsageReport,
)
from ostler.render.lines import (
    BAD,
    BOLD,
    CODE,
    DIM,
    GOOD,
    MARKDOWN,
    WARN,
    Line,
    StyledSpan,
    answered_line,
    asked_lines,
    diff_size,
    plain,
    relative,
    short_folder,
    spoken_cost,
    spoken_duration,
    spoken_usage,
)
from ostler.render.markdown_blocks import MarkdownBlocks
from ostler.terminal.cells import cells, shorten
from ostler.terminal.safe import one_line, safe


class TurnRenderer:
    """Renders one turn: feed it events, print the lines it returns.

    `partial` is text that may still change and `activity` what goes on now: a live view shows
    them below the printed lines, a plain one leaves them out. Text comes in lines, their Markdown
    lightly coloured, or with `markdown` in whole blocks. A `header` that was printed before is
    not printed again.
    """

    def __init__(
        self,
        *,
        access: str = "",
        home: str = "",
        verbose: bool = False,
        width: int | None = None,
        markdown: bool = False,
        header: str = "",
    ) -> None:
        self.access, self.home, self.verbose, self.width = access, home, verbose, width
        self.header = header
        self.folder = ""
        self._line = ""  # of text, without its end
        self._blocks = MarkdownBlocks() if markdown else None
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
        """Whether a blank line comes before what is next, if it is of this block."""
        between = block == "text" and self._blocks is not None and self._blocks.gap
        return bool(self._block) and (self._block != block or between)

    @property
    def partial(self) -> str:
        return self._line if self._blocks is None else self._blocks.open

    def flush(self) -> list[Line]:
        """The text that has no end yet, ended."""
        if self._blocks is not None:
            return self._text_blocks(self._blocks.flush())
        rest, self._line = self._line, ""
        return self._in_block("text", [self._prose(rest)]) if rest else []

    def _text(self, text: str) -> list[Line]:
        if self._blocks is not None:
            return self._text_blocks(self._blocks.feed(text.replace("\r\n", "\n")))
        *whole, self._line = (self._line + text).split("\n")
        return self._text_lines(whole)

    def _text_blocks(self, blocks: Sequence[str]) -> list[Line]:
        if self._block != "text" and blocks and not blocks[0]:
            blocks = blocks[1:]
        return self._in_block("text", [[(block, MARKDOWN)] if block else [] for block in blocks]) if blocks else []

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
            lines = self._text(event.text[len(said) :]) + self.flush()
        else:
            lines = self.flush()
            lines += self._text(event.text) + self.flush() if event.text.strip() != said.strip() else []
        if self._blocks is not None:
            self._blocks.gap = True  # what is said next is another paragraph
        return lines

    def _described(self, event: AnyEvent) -> tuple[str, list[Line]]:
        match event:
            case Started():
                self.activity, self.folder = "thinking", event.folder
                return "header", self._header(event)
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
                return "note", asked_lines(event, self.folder, self.home)
            case Answered():
                self.activity = "working"
                return "note", [answered_line(event)]
            case TerminalOpened() if event.terminal not in self._terminals:
                name = self._terminals[event.terminal] = one_line(event.title or event.terminal)
                return "note", [[(f"terminal {name} opened", DIM)]]
            case TerminalClosed():
                name = self._terminals.get(event.terminal) or one_line(event.terminal)
                return "note", [[(f"terminal {name} closed", DIM)]]
            case Raw(stream="stderr"):  # of a command: what agents log there is not kept as events
                return "text", [*self.flush(), [(safe(event.line), "")]]
            case Raw() if self.verbose:
                return "raw", [[("raw: ", DIM), (one_line(event.line or str(event.record)), DIM)]]
            case Forwarded():
                what = f"forwarded to {event.to}" if event.ok else f"not forwarded to {event.to}: {event.answer}"
                return "note", [[(one_line(what), DIM)]]
            case Hook() if self.verbose:
                return "raw", [[("hook: ", DIM), (one_line(event.name), DIM)]]
        return "", []

    def _header(self, event: Started) -> list[Line]:
        """Who works where, once: some agents say it again when more is known."""
        words = [event.model or "", short_folder(event.folder, self.home), self.access and f"access {self.access}"]
        rest = "".join(f" · {one_line(word)}" for word in words if word)
        line: Line = [("● ", CODE), (one_line(event.agent), BOLD), (rest, DIM)]
        before, self.header = self.header, plain(line)
        return [line] if self.header != before else []

    def _thought(self, text: str) -> list[Line]:
        if self.verbose:
            return [[("∴ " if not i else "  ", DIM), (safe(line), "dim italic")] for i, line in enumerate(_rows(text))]
        first = one_line(text, self._room(100, 2))
        return [[("∴ ", DIM), (first, "dim italic")]] if first else []

    def _tool(self, event: ToolEnded) -> list[Line]:
        started = self.tools.pop(event.id, None) or ToolStarted(id=event.id, name="tool")
        indent = "    " if started.parent else "  "
        mark: StyledSpan = ("✓ ", GOOD) if event.ok else ("■ ", WARN) if event.stopped else ("✗ ", BAD)
        end = _tool_end(event)
        words = self.tool_words(started, len(indent) + 2 + cells(plain(end)))
        return [
            [(indent, ""), mark, *words, *end],
            *([(f"{indent}  {row}", DIM)] for row in self._output(started, event)),
        ]

    def tool_words(self, started: ToolStarted, taken: int) -> Line:
        """A tool in ostler's word for it, and what it is about; in a row of which so many cells are taken."""
        name = one_line(started.category or started.name, 40)
        about = started.title or ", ".join(file.path for file in started.files)
        if started.category == "mcp":
            about = f"{started.name} {about}".rstrip()
        elif started.category != "shell":  # a command is shown as it was run
            about = relative(about, self.folder, self.home)
        about = shorten(one_line(about, 400), self._room(100, taken + len(name) + 1))
        return [(name, BOLD), (f" {about}" if about else "", "")]

    def _output(self, started: ToolStarted, event: ToolEnded) -> list[str]:
        """The last rows of what a failed tool or a command said; of all tools when verbose."""
        shows = self.verbose or not event.ok or event.exit_code is not None or started.category == "shell"
        rows = [shorten(safe(row.expandtabs(4)), self._room(200, 6)) for row in _rows(event.output)] if shows else []
        most = 40 if self.verbose else 5
        return rows if len(rows) <= most + 1 else [f"… {len(rows) - most:,} earlier lines", *rows[-most:]]

    def _room(self, most: int, taken: int) -> int:
        """How many cells of a row there are beside those taken."""
        return min(most, max(10, self.width - taken)) if self.width else most

    def _plan(self, event: Plan) -> list[Line]:
        """A new plan whole, of a known one what has been done or is new; the status names what is next."""
        marks = {"done": ("☑ ", GOOD), "active": ("▸ ", CODE), "pending": ("☐ ", DIM)}
        before, self._steps = self._steps, {step.text: step.status for step in event.steps}
        self.step = next((one_line(step.text, 60) for step in event.steps if step.status == "active"), "")
        changed = [s for s in event.steps if s.text not in before or (s.status == "done" and before[s.text] != "done")]
        return [[("  ", ""), marks[s.status], (one_line(s.text), "" if s.status == "active" else DIM)] for s in changed]

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
        parts = re.split(_MARKED, line)  # plain and marked ones in turn
        return [(p, "" if i % 2 == 0 else CODE if p[0] == "`" else BOLD) for i, p in enumerate(parts) if p]

    def _in_block(self, block: str, lines: list[Line]) -> list[Line]:
        before: list[Line] = [[]] if self._block not in ("", block) else []
        self._block = block
        return before + lines


_MARKED = r"(`[^`]+`|\*\*[^*`]+\*\*)"  # `code` and **bold**, with their marks


def _rows(text: str) -> list[str]:
    return text.replace("\r\n", "\n").strip("\n").split("\n") if text.strip() else []


def _tool_end(event: ToolEnded) -> Line:
    """What stands after the words on a tool: what it changed, how it ended, how long it took."""
    size, code, took = diff_size(event.diff), event.exit_code, event.duration_ms
    found: Line = [
        (size, DIM),
        (f"exit {code}" if code and not event.stopped else "", BAD),
        ("stopped" if event.stopped else "refused" if event.denied else "", WARN if event.stopped else BAD),
        (spoken_duration(took / 1000) if took is not None else "", DIM),
    ]
    return [(f"  {text}", style) for text, style in found if text]


def _limited(event: Limited) -> str:
    words = one_line(event.message, 300) or {"limited": "held up by a limit"}.get(event.error, event.error)
    more = [f"attempt {event.attempt}"] if event.attempt is not None else []
    if event.retry_in is not None:
        more.append(f"again in {spoken_duration(event.retry_in)}")
    elif event.retry_at is not None:
        more.append(f"again at {time.strftime('%H:%M:%S', time.localtime(event.retry_at))}")
    return f"{event.error}: {words}" + (f" ({', '.join(more)})" if more else "")
