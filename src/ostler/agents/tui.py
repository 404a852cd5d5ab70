"""The TUI of an agent: its own screen in a terminal, driven as a person would drive it.

Pure, like all adapters: a face is told what is on the screen and what the program said of itself, and says what that
means and which keys to press. Whoever has the terminal (work/tuis) watches, types and waits.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from ostler.agents.reader import Reader
from ostler.model import Asked, AskOptionKind, Host, Launch, Turn

Status = Literal["starting", "ready", "busy", "asking", "ended"]
EMPTY_CELL = "\u2800"  # of braille: it looks like a blank, but what follows it is not read as a command
KeyPresses = tuple[str, ...]  # names of keys ("Enter", "Escape", "ctrl+c"), or characters that are typed


class TuiScreen(Struct, frozen=True):
    """What is seen: the rows as text, and the same with colours where they are known."""

    rows: tuple[str, ...] = ()
    styled: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows).strip("\n")


class Signals(Struct, frozen=True, kw_only=True):
    """What the program said of itself last. `state` is that of OSC 7501: idle, working, blocked, done.

    `silent`: it was watched from its start, and has said nothing yet.
    """

    title: str = ""
    state: str = ""
    exited: bool = False
    silent: bool = False


class DialogOption(Struct, frozen=True, kw_only=True):
    """An answer that a dialog on the screen offers. Without a kind nobody but a person at the terminal chooses it."""

    name: str
    keys: KeyPresses
    kind: AskOptionKind | None = None


class Question(Struct, frozen=True, kw_only=True):
    """A dialog that is open on the screen. `text` is all of it.

    `settled_by`: the option that grants nothing and changes nothing, of a dialog that is known word by word.
    """

    text: str
    title: str = ""
    tool: str = ""
    options: tuple[DialogOption, ...] = ()
    settled_by: DialogOption | None = None

    def option(self, kind: str) -> DialogOption | None:
        return next((option for option in self.options if option.kind == kind), None)


class TranscriptReader(Reader):
    """Reads the file that the CLI keeps of a conversation, from the moment a prompt was sent.

    `prompted`: the prompt stands in it. `interrupted`: somebody stopped the turn. `result` as for all readers.
    """

    tentative = False  # an answer that looks like the last one may not be it: only with another signal it counts

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.sent = turn.prompt  # as it was pasted
        self.prompted = False
        self.interrupted = False

    def take_prompt(self, text: str) -> bool:
        """Whether a prompt in the file is the one that was sent; white space may have changed on its way."""
        self.prompted = self.prompted or squeezed(text) == squeezed(self.sent)
        return self.prompted

    def asked_about(self, question: Question) -> Asked | None:
        """What an open dialog is about, by the records, which are exact where a screen cuts and wraps. None: unknown.

        A dialog stands before a tool that has been called and has not ended; of several, the one that it names.
        """
        tools = list(self.open_tools.values())
        if len(tools) > 1:
            shown = squeezed(question.text)
            tools = [tool for tool in tools if tool.title and squeezed(tool.title) in shown]
        if len(tools) != 1:
            return None
        return Asked(id="", tool=tools[0].name, title=tools[0].title, input=tools[0].input, files=tools[0].files)


def _no_title(title: str) -> Status | None:
    return None


def _no_question(screen: TuiScreen) -> Question | None:
    return None


class TuiFace(Struct, frozen=True, kw_only=True):
    """How an agent's own screen is started, read and typed into."""

    launch: Callable[[Turn, Host], Launch]
    reader: Callable[[Turn], TranscriptReader]
    box: Callable[[TuiScreen], str | None]  # what stands in the input box; None where there is none
    is_busy: Callable[[TuiScreen], bool]  # by its busy line alone
    question: Callable[[TuiScreen], Question | None] = _no_question
    answer_ends: Callable[[TuiScreen], int | None] = lambda screen: None  # the row below the answer on the screen
    title_status: Callable[[str], Status | None] = _no_title
    prompt: Callable[[Turn], str] = lambda turn: turn.prompt  # what is pasted
    transcripts: Callable[[Turn], Sequence[str]] = lambda turn: ()  # globs under HOME of the conversation's file
    states: bool = False  # it tells its state by OSC 7501, first when it is ready
    announces: bool = False  # it says something of itself as soon as it is ready, and not before, in every terminal
    pasted: str = r"\[Pasted text"  # how the box shows a long paste
    paste_most: int = 0  # characters that it takes for text in one paste; 0: any number
    interrupt: KeyPresses = ("Escape",)  # stops a turn
    interrupt_asking: KeyPresses = ("Escape",)  # the same while a dialog is open
    interrupted: str = ""  # what the screen shows then: a pattern
    clear: KeyPresses = ("ctrl+c",)  # empties a box that holds something
    banner: str = ""  # a pattern: what it draws once it takes keys, where it draws its box before that
    starts_deaf: bool = False  # it draws its box some time before it takes a paste, and nothing tells when
    access: str = ""  # how it is made to ask, for the docs

    def status(self, screen: TuiScreen, signals: Signals) -> Status:
        """What it does now, by all that is seen and told; a dialog on the screen counts most."""
        if signals.exited:
            return "ended"
        if self.question(screen) is not None or signals.state == "blocked":
            return "asking"
        if signals.state == "working" or self.is_busy(screen):
            return "busy"
        if self.title_status(signals.title) in ("busy", "asking"):
            return self.title_status(signals.title) or "busy"
        if self.announces and signals.silent:
            return "starting"  # whatever box it has drawn is not the one that takes prompts
        return "starting" if self.box(screen) is None else "ready"

    def holds(self, screen: TuiScreen, text: str) -> bool:
        """Whether the input box holds this text and nothing else, all of it to be seen."""
        return bool(text) and squeezed(self.box(screen) or "") == squeezed(text)

    def shows(self, screen: TuiScreen, text: str) -> bool:
        """Whether the input box holds this text, as far as a box shows it: its end, or a placeholder."""
        box = self.box(screen)
        if not box:
            return False
        if re.search(self.pasted, box):
            return True
        end = squeezed(text)[-40:]
        return bool(end) and end in squeezed(box)


# -- for faces ------------------------------------------------------------------------------------------------

_SPACE = r"[\s\u200b\ufe0f]+"
_FRAME = " \t│┃|╎"
_RULE = r"^\s*[─━╌╭╮╰╯▀▄]{8,}\s*$"
_OPTION = r"^\W*?(?P<mark>[❯›●>▸]?)\s*(?P<number>\d)[.)]\s+(?P<name>\S.*?)\s*$"
_SGR = r"\x1b\[([0-9;:]*)m"
_OTHER = r"\x1b(?:\[[0-9;:?]*[@-ln-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()].)"


def squeezed(text: str) -> str:
    """Without white space: a screen wraps and indents as it likes."""
    return re.sub(_SPACE, "", text)


def unframed(row: str) -> str:
    """A row without the frame around it."""
    return row.strip(_FRAME + "\xa0")


def is_rule(row: str) -> bool:
    """Whether a row is a line that is drawn."""
    return re.match(_RULE, row) is not None


def bright(styled: str) -> str:
    """A row of VT as text, without what is drawn faint: placeholders and suggestions in a box that is empty."""
    faint, out, at = False, [], 0
    for found in re.finditer(_SGR, styled):
        if not faint:
            out.append(styled[at : found.start()])
        for part in (found[1] or "0").split(";"):
            faint = part == "2" if part in ("", "0", "2", "22") else faint
            if part.startswith(("38", "48")):
                break  # what follows are numbers of a colour
        at = found.end()
    if not faint:
        out.append(styled[at:])
    return re.sub(_OTHER, "", "".join(out))


def last_row(rows: Sequence[str], pattern: str) -> int | None:
    """The lowest row that matches."""
    return next((n for n in range(len(rows) - 1, -1, -1) if re.search(pattern, rows[n])), None)


def lowest_line(rows: Sequence[str]) -> str | None:
    """The lowest row that begins at the very left; what belongs to it, tips and lists, is indented below it."""
    return next((row for row in reversed(rows) if row[:1].strip()), None)


class NumberedOptions(Struct, frozen=True):
    """A list of numbered options: its first row, their names, and which one is marked (from 0)."""

    row: int
    names: tuple[str, ...]
    marked: int

    def keys_to(self, n: int) -> KeyPresses:
        """Goes to an option by the arrows and takes it; for programs in which a number does not."""
        steps = n - self.marked
        return (*(("ArrowDown",) * steps if steps > 0 else ("ArrowUp",) * -steps), "Enter")


def numbered(rows: Sequence[str]) -> NumberedOptions | None:
    """The lowest list of numbered options on the screen, one of which is marked.

    A list that somebody wrote has no mark; one that is cut off at its top does not begin with 1.
    """
    found: list[tuple[int, str, bool]] = []
    for n in range(len(rows) - 1, -1, -1):
        match = re.match(_OPTION, unframed(rows[n]))
        if match is None:
            continue
        found.insert(0, (n, match["name"], bool(match["mark"])))
        if match["number"] == "1":
            marks = [marked for _, _, marked in found]
            names = tuple(name for _, name, _ in found)
            return NumberedOptions(n, names, marks.index(True)) if any(marks) and len(found) > 1 else None
    return None


def above(rows: Sequence[str], row: int, until: Callable[[str], bool]) -> list[str]:
    """The text above a row, unframed and without blank rows, down from the nearest row that `until` accepts."""
    start = next((n for n in range(row - 1, -1, -1) if until(rows[n])), -1)
    return [text for each in rows[start + 1 : row] if not is_rule(each) and (text := unframed(each))]


def answer_since(rows: Sequence[str], prompt: str, end: int | None) -> str:
    """What stands on the screen between the prompt and row `end`, as plain text: for want of anything better."""
    first = squeezed(next((line for line in prompt.splitlines() if line.strip()), ""))[:30]
    below = list(rows[:end])
    start = next((n for n in range(len(below) - 1, -1, -1) if first and first in squeezed(below[n])), -1)
    return "\n".join(row.rstrip() for row in below[start + 1 :] if not is_rule(row)).strip()
