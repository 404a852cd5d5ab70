"""Events and envelopes as lines for people. Pure: a line is a list of (text, style) spans."""

import re
from collections.abc import Sequence

from ostler.agents.tool_input import command_of, paths_of
from ostler.model import (
    TIME_LIMIT,
    Answered,
    Asked,
    Attachment,
    Denial,
    Envelope,
    Session,
    Usage,
)
from ostler.terminal.safe import one_line

StyledSpan = tuple[str, str]
Line = list[StyledSpan]

DIM, BOLD, GOOD, BAD, WARN, CODE = "dim", "bold", "green", "red", "yellow", "cyan"
MARKDOWN = "markdown"  # the one span of such a line is a whole block, for a view that can draw it
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


def line_count(text: str) -> str:
    return counted(text.count("\n") + 1, "line")


# -- parts of a turn ---------------------------------------------------------------------------------


def relative(text: str, folder: str, home: str = "") -> str:
    """The paths in a text as seen from the folder; others below the home folder with `~`."""
    for start, instead in ((folder.rstrip("/"), ""), (home.rstrip("/"), "~/")):
        if start:
            path = r"(?<![^\s,'\"(])" + re.escape(start)
            text = re.sub(path + r"/(?=[^\s/])", instead, text)
            text = re.sub(path + r"/?(?![^\s,'\")])", instead[:1] or ".", text)
    return text


def attached_line(attached: Attachment) -> Line:
    """What went along with a prompt: `+ stdin  12 lines`."""
    name = one_line(attached.path or attached.name)
    size = "" if attached.content is None else f"  {line_count(attached.content)}"
    return [("+ ", DIM), (name, ""), (size, DIM)]


def asked_lines(event: Asked, folder: str = "", home: str = "") -> list[Line]:
    """What an agent asks for: the tool by its own name, the command or files, and its own reason."""
    command = command_of(event.input)
    what = one_line(command or relative(subject(event), folder, home), 300)
    line: Line = [("? ", WARN), (one_line(event.tool, 40), BOLD)]
    if event.category not in ("", event.tool, event.tool.lower()):
        line.append((f" ({one_line(event.category, 40)})", DIM))
    line.append((f" asks: {what}" if what else " asks for permission", ""))
    if size := diff_size(event.diff):
        line.append((f"  {size}", DIM))
    reason = one_line(event.reason, 300)
    return [line, [("  ", ""), (reason, DIM)]] if reason and reason != what else [line]


def subject(event: Asked) -> str:
    """What it is about: a command, files, or what the agent calls it."""
    return command_of(event.input) or event.title or ", ".join(dict.fromkeys(paths_of(event)))


def answered_line(event: Answered) -> Line:
    if event.option == "cancelled":
        return [("? ", WARN), (f"not answered: {_UNANSWERED.get(event.by, 'the turn ended')}", DIM)]
    word, style = _ANSWERS.get(event.option, (one_line(event.option), DIM))
    line = [("? ", WARN), (word, style), (f" by {one_line(event.by)}", DIM)]
    return [*line, (f": {one_line(event.message)}", "")] if event.message and event.by != TIME_LIMIT else line


_ANSWERS = {
    "allow_once": ("allowed", GOOD),
    "allow_always": ("always allowed", GOOD),
    "reject_once": ("denied", BAD),
    "reject_always": ("always denied", BAD),
}
_UNANSWERED = {
    "cancelled": "the turn was cancelled",
    "timed_out": "the turn took too long",
    "over_budget": "the turn cost too much",
    "the agent": "the agent withdrew it",
}


def short_folder(folder: str, home: str) -> str:
    if home and (folder == home or folder.startswith(home + "/")):
        return "~" + folder[len(home) :]
    return folder


def diff_size(diff: str) -> str:
    plus = minus = old = new = 0
    for row in diff.split("\n"):
        if head := re.match(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", row):
            old, new = int(head[1] or 1), int(head[2] or 1)
        elif old > 0 or new > 0:  # so long is a passage: its lines may look like the head of a file
            plus, minus = plus + row.startswith("+"), minus + row.startswith("-")
            old, new = old - (not row.startswith(("+", "\\"))), new - (not row.startswith(("-", "\\")))
        else:
            plus += row.startswith("+") and not row.startswith("+++")
            minus += row.startswith("-") and not row.startswith("---")
    return f"+{plus} −{minus}" if plus or minus else ""


# -- the end of a turn ------------------------------------------------------------------------------


PLANTED = {"add": "new", "update": "changed", "delete": "deleted", "move": "moved"}


def ending(envelope: Envelope, diff: str = "") -> list[Line]:
    """The last lines: how it went, what changed, what was refused, how to go on."""
    return [
        status(envelope),
        *_error_lines(envelope),
        *changed_files(diff),
        *([(f"planted: {one_line(file.path)} ({PLANTED[file.change]})", WARN)] for file in envelope.planted),
        *([(f"left running, ended: {one_line(name)}", WARN)] for name in envelope.leaked),
        *(refusal(denial, envelope.folder) for denial in envelope.denied),
        *([continue_line(envelope.name or envelope.session)] if envelope.agent != "exec" else []),
    ]


def continue_line(key: str, *, talking: bool = False) -> Line:
    from shlex import quote

    name = quote(one_line(key))
    return [("continue: ", DIM), (f"ostler chat -s {name}" if talking else f'ostler run --session {name} "…"', "")]


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


def changed_files(diff: str, most: int | None = 10) -> list[Line]:
    """The files of a diff: `app.py +3 −1`, so many of them at most."""
    files = [part for part in ("\n" + diff).split("\ndiff --git ")[1:] if part]
    if not files:
        return []
    lines: list[Line] = [[(f"  {counted(len(files), 'file')} changed", "")]]
    for part in files[:most]:
        head, _, body = part.partition("\n")
        name = one_line(head.split(" b/", 1)[-1], 120)
        kind = "new " if "\nnew file mode" in "\n" + body else "deleted " if "\ndeleted file" in "\n" + body else ""
        lines.append([("    ", ""), (name, ""), (f"  {kind}{diff_size(body)}", DIM)])
    left = len(files[most:]) if most is not None else 0
    return [*lines, [(f"    and {left} more", DIM)]] if left else lines


def refusal(denial: Denial, folder: str = "") -> Line:
    what = one_line(f"{denial.tool} {relative(denial.target, folder)}", 300)
    if denial.access:
        return [("refused: ", BAD), (what, ""), (f" — run again with --access {denial.access}", DIM)]
    return [("refused: ", BAD), (what, ""), (f" — {one_line(denial.reason)}" if denial.reason else "", DIM)]


# -- tables -----------------------------------------------------------------------------------------


def session_rows(sessions: Sequence[Session], now: float, home: str) -> list[tuple[str, ...]]:
    return [
        (
            s.label,
            one_line(s.agent),
            s.state,
            counted(s.turns, "turn"),
            spoken_cost(s.cost_usd) if s.cost_usd is not None else "",
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
