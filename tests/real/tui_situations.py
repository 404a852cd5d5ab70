"""Situations of the real CLIs in their own screens: made by the scripted model and by keys, and labelled by that."""

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from real.tui_recorder import Recorder, TimedModel
from real.yard import Yard

LONG = "a line among many, to be read\n" * 60
# What looks like a dialog, a busy line and a prompt, and is an answer.
TRICKY = """Press esc to interrupt, or (esc to cancel, 3s) as it may say. Do you want to go on?
❯ 1. Yes
  2. No, and tell it what to do
› 1. Yes, proceed (y)
  2. No (esc)
● 1. Allow it once
  2. No, suggest changes (esc)
> a quoted prompt
✻ Thinking… (12s · esc to interrupt)
• Working (3s • esc to interrupt)"""


class Looks(Struct, frozen=True, kw_only=True):
    """How a person tells where they are, in the words of that CLI's screen; and what they press."""

    ready: str  # the box
    dialog: str  # it asks for a permission
    edit: str  # the same for a file
    yes: tuple[str, ...]
    leave: str
    picker: tuple[str, str]  # a command that opens a list to choose from, and a word of it
    says_idle: bool = True


LOOKS = {
    "claude": Looks(
        ready=r"^❯", dialog=r"Do you want to proceed", edit=r"Do you want to (create|make)", yes=("1",), leave="/exit",
        picker=("/model", r"Select [Mm]odel"),
    ),
    "codex": Looks(
        ready=r"^› (?!\d)", dialog=r"Would you like to", edit=r"Would you like to", yes=("y",), leave="/quit",
        picker=("/model", r"Select Model|Press enter to|Select"),
    ),
    "gemini": Looks(
        ready=r"Type your message", dialog=r"Allow once", edit=r"Allow once", yes=("1",), leave="/quit",
        picker=("/theme", r"Select Theme|Theme"), says_idle=False,
    ),
}  # fmt: skip


class Play:
    """One session of one CLI."""

    def __init__(self, yard: Yard, rec: Recorder, model: TimedModel) -> None:
        self.yard, self.rec, self.model = yard, rec, model
        self.looks = LOOKS[yard.agent]
        self.gates = 0

    # -- starts and ends

    async def starts(self, what: str = "just started") -> None:
        rec = self.rec
        rec.moment("starting", f"{what}: nothing is drawn")
        await rec.until(lambda: any(row.strip() for row in rec.rows), "a first row")
        if not rec.shows(self.looks.ready):
            rec.moment("starting", f"{what}: the first rows")
        await rec.shown(self.looks.ready)
        if self.yard.agent == "codex" and not rec.state:  # a picture of a box: what it asks first comes after it
            rec.moment("starting", f"{what}: it loads")
        await self._first_run(what)
        await rec.shown(self.looks.ready)
        await rec.still()

    async def _first_run(self, what: str) -> None:
        """What codex asks before it is idle, each time that nobody trusts the folder."""
        rec = self.rec
        for word, keys in (("Open restricted", ()), ("Use existing model", ("ArrowDown",))):
            await rec.until(lambda word=word: rec.state or rec.shows(word) or not self.looks.says_idle, "idle")
            if rec.shows(word):
                await rec.still(0.6)
                rec.moment("asking", f"{what}: {word}")
                await rec.press(*keys, "Enter")
        await rec.until(lambda: rec.state or not self.looks.says_idle, "idle")

    async def leaves(self) -> None:
        await self.rec.type(self.looks.leave)
        await self.rec.still(0.6)
        await self.rec.press("Enter")
        with contextlib.suppress(TimeoutError):
            await self.rec.until(lambda: self.rec.exited, "the end", 5)
        if not self.rec.exited:
            await self.rec.press("Enter")  # a menu of commands took the first
        await self.rec.until(lambda: self.rec.exited, "the end")
        self.rec.moment("ended", f"left by {self.looks.leave}")

    async def killed(self, what: str, turn: bool = True) -> None:
        assert self.rec.program.row.pid
        if turn:
            self.rec.over("ended")
        os.kill(self.rec.program.row.pid, 9)
        await self.rec.until(lambda: self.rec.exited, "the end")
        self.rec.moment("ended", f"killed while {what}")

    # -- turns

    def gate(self) -> str:
        self.gates += 1
        return f"gate{self.gates}"

    async def prompt(self, text: str) -> None:
        await self.rec.pasted(text)
        await self.rec.submit(text)

    async def taken(self, mark: str) -> Any:
        """The model has that prompt."""
        return await self.rec.until(lambda: next((x for x in self.model.asked if mark in x.user), None), mark)

    async def done(self, what: str, how: str = "done") -> None:
        """All answers are out and the screen is still."""
        await self.rec.until(lambda: all(x.ended or x.aborted or x.status >= 400 for x in self.model.asked), "the end")
        await self.rec.still()
        self.rec.over(how, self.model.last_byte())
        self.rec.moment("ready", what)
        self.model.requests.clear()

    async def held(self, what: str, before: str = "", samples: int = 3, mark: str = "") -> str:
        """A prompt whose answer is held back."""
        gate = self.gate()
        await self.prompt(f"{before}[[hold:{gate}]]")
        await self.rec.until(lambda: any(x.held for x in self.model.asked), "a held answer")
        for n in range(samples):
            await asyncio.sleep(0.8)
            self.rec.moment("busy", f"{what}, {n + 1}")
        return gate

    async def asked(self, prompt: str, what: str, looks: str) -> None:
        await self.prompt(prompt)
        await self.rec.shown(looks)
        await self.rec.still(0.6)
        self.rec.moment("asking", what)

    async def stopped(self, what: str) -> None:
        self.rec.over("interrupted")
        await self.rec.press("Escape")
        await self.rec.still()
        self.rec.moment("ready", what)
        self.model.requests.clear()


# -- situations -----------------------------------------------------------------------------------------------


async def the_box(play: Play) -> None:
    rec = play.rec
    await play.starts()
    rec.moment("ready", "ready")
    await rec.type("say something")
    await rec.still(0.6)
    rec.moment("ready", "text is typed in the box")
    await rec.erase(13)
    await rec.type("/")
    await rec.still(0.6)
    rec.moment("ready", "a menu of commands is open")
    await rec.erase(1)
    await rec.still(0.6)
    await rec.pasted("one\ntwo\nthree 1. Yes")
    rec.moment("ready", "three lines in the box")
    await rec.erase(24)
    await rec.still(0.6)
    await rec.pasted("1. Yes\n2. No")
    rec.moment("ready", "a numbered list in the box")
    await rec.erase(14)
    await rec.still(0.6)


async def working(play: Play) -> None:
    rec, gate = play.rec, play.gate()
    text = f"{LONG}[[hold:{gate}]]"
    await rec.pasted(text)
    rec.moment("ready", "a long paste in the box")
    await rec.submit(text)
    await rec.until(lambda: any(x.held for x in play.model.asked), "a held answer")
    await asyncio.sleep(1)
    rec.moment("busy", "an answer begins")
    await rec.type("next")
    await rec.still(0.3) if play.yard.agent == "script" else await asyncio.sleep(0.6)
    rec.moment("busy", "text is typed while it works")
    await rec.erase(4)
    play.model.release(gate)
    await play.done("after a long prompt")
    await play.prompt("[[slow:4]]")
    await rec.until(lambda: any(x.began and "slow:4" in x.user for x in play.model.asked), "a stream")
    for n in range(3):
        await asyncio.sleep(0.9)
        if not all(x.ended for x in play.model.asked):
            rec.moment("busy", f"an answer is streamed, {n + 1}")
    await play.done("after a long answer")
    await play.prompt("[[hang:4]]")
    await play.taken("hang:4")
    for n in range(2):
        await asyncio.sleep(1.2)
        rec.moment("busy", f"the model is silent, {n + 1}")
    await play.done("after silence")


async def tools(play: Play) -> None:
    rec, folder = play.rec, play.yard.folder
    command = "touch running; while [ ! -e go ]; do sleep 0.2; done; echo went"
    await play.asked(play.yard.asking(command), "a command is asked for", play.looks.dialog)
    await rec.press("ArrowDown")
    await rec.still(0.6)
    rec.moment("asking", "another option is marked")
    await rec.press("ArrowUp")
    await rec.press(*play.looks.yes)
    await rec.until((folder / "running").exists, "the tool")
    for n in range(2):
        await asyncio.sleep(1)
        rec.moment("busy", f"a tool runs, {n + 1}")
    (folder / "go").touch()
    await play.done("after a tool")
    for name in ("go", "running"):
        (folder / name).unlink()


async def noes(play: Play) -> None:
    await play.asked(play.yard.asking("touch no.txt"), "a second command is asked for", play.looks.dialog)
    await play.stopped("after a no to a command")


async def tricks(play: Play) -> None:
    play.model.rules = [("tricky", f"say:{TRICKY}")]
    await play.prompt("be tricky")
    await play.taken("be tricky")
    await play.done("an answer that looks like a dialog")
    gate = await play.held("below an answer that looks like a dialog", samples=2)
    play.model.release(gate)
    await play.done("after an answer that looks like a dialog")
    await play.prompt("be tricky")
    await play.taken("be tricky")
    await play.done("again an answer that looks like a dialog")
    await play.asked(play.yard.asking("touch no.txt"), "below an answer that looks like a dialog", play.looks.dialog)
    await play.stopped("after that no")
    await play.held("a prompt that looks like a dialog", before=f"{TRICKY}\n", samples=2)
    await play.stopped("interrupted, with a prompt that looks like a dialog")


async def stops(play: Play) -> None:
    await play.held("before an interrupt", samples=1)
    await play.stopped("interrupted")
    await play.prompt("[[say:And on it goes.]]")
    await play.taken("And on")
    await play.done("after a turn that follows an interrupt")


async def faults(play: Play) -> None:
    """The last of a session: the CLIs send the prompt of a turn that failed again with the next one."""
    if play.yard.agent == "claude":  # the others were set up not to try again
        await play.prompt("[[error:529:1]]")
        await play.taken("error:529")
        await asyncio.sleep(0.3)
        if len([x for x in play.model.asked if "error:529" in x.user]) == 1:
            play.rec.moment("busy", "an error of the API is tried again")
        await play.rec.until(lambda: any(x.ended and x.status == 200 for x in play.model.asked), "the second try")
        await play.done("after a second try")
    await play.prompt("[[error:400]]")
    await play.taken("error:400")
    await play.done("after an error of the API", "failed")
    await asyncio.sleep(5)  # so long a state may be left standing
    play.rec.moment("ready", "some seconds after an error of the API")


async def pickers(play: Play) -> None:
    rec = play.rec
    command, word = play.looks.picker
    await rec.type(command)
    await rec.still(0.6)
    rec.moment("ready", "a command is typed, and its menu open")
    await rec.press("Enter")
    await rec.shown(word)
    await rec.still(0.6)
    rec.moment("asking", "a list to choose from, opened by a person")
    await rec.press("Escape")
    await rec.still()
    rec.moment("ready", "the list is closed")


async def edits(play: Play) -> None:
    """Dialogs of other kinds; each CLI has its own."""
    for what, prompt, looks, then in KINDS[play.yard.agent]:
        prompt = prompt.replace("FOLDER", str(play.yard.folder))
        await play.asked(prompt, what, looks)
        for keys, more in then:
            await play.rec.press(*keys)
            if more:
                await play.rec.still(0.6)
                play.rec.moment("asking", more)
        await play.stopped(f"after a no: {what}")


def tool(name: str, **input: Any) -> str:
    return f"[[tool:{name}:{json.dumps(input)}]]"


QUESTIONS = [
    {
        "question": f"Which {thing} do you want?",
        "header": thing.title(),
        "multiSelect": False,
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
    }
    for thing in ("colour", "carpet")
]
Kind = tuple[str, str, str, list[tuple[tuple[str, ...], str]]]
KINDS: dict[str, list[Kind]] = {
    "claude": [
        ("a new file is asked for", "[[write:made.txt]]", r"Do you want to create", []),
        (
            "a change of a file is asked for",
            tool("Read", file_path="FOLDER/README.md")
            + tool("Edit", file_path="FOLDER/README.md", old_string="# A project", new_string="# Another"),
            r"Do you want to make this edit",
            [],
        ),
        ("a page of the web is asked for", tool("WebFetch", url="https://example.com", prompt=""), "to allow", []),
        ("a question", tool("AskUserQuestion", questions=QUESTIONS), "Which colour", [(("1",), "the second page")]),
    ],
    "codex": [
        (
            "a change of a file outside is asked for",
            "[[tool:apply_patch:*** Begin Patch\n*** Add File: /home/user/outside.txt\n+one\n*** End Patch]]",
            r"Would you like to",
            [],
        ),
        (
            "a command of many lines is asked for",
            tool("exec_command", cmd="echo one\necho two\necho three\n" * 3, sandbox_permissions="require_escalated",
                 justification="Do you want to allow this? 1. Yes 2. No"),
            r"Would you like to",
            [],
        ),
    ],
    "gemini": [
        ("a new file is asked for", "[[write:made.txt]]", r"Allow once", []),
        (
            "a change of a file is asked for",
            tool("replace", file_path="FOLDER/README.md", instruction="x", old_string="# A project",
                 new_string="# Another"),
            r"Allow once",
            [],
        ),
        ("a page of the web is asked for", tool("web_fetch", prompt="read https://example.com/"), r"Allow once", []),
    ],
}  # fmt: skip


FIRST_RUN_SCREENS: dict[str, list[tuple[str, str, tuple[str, ...]]]] = {
    "claude": [
        ("it asks whether the folder is trusted", r"trust", ("ArrowUp", "Enter")),
        ("it asks whether a key is to be used", r"API key", ()),
    ],
    "codex": [("it asks how to sign in", r"Sign in", ())],
    "gemini": [
        ("it asks whether the folder is trusted", r"Do you trust", ("3",)),
        ("it asks how to sign in", r"How would you like to authenticate|authenticate", ()),
    ],
}


async def whole(play: Play) -> None:
    for situation in (the_box, working, tools, noes, stops, tricks, edits, pickers, faults):
        await situation(play)
    await play.leaves()


async def killed_busy(play: Play) -> None:
    await play.starts()
    await play.held("before it is killed", samples=1)
    await play.killed("it works")


async def killed_asking(play: Play) -> None:
    await play.starts()
    await play.asked(play.yard.asking("touch no.txt"), "a command is asked for, before it is killed", play.looks.dialog)
    await play.killed("it asks")


async def before(play: Play) -> None:
    """What is resumed."""
    await play.starts()
    await play.prompt("the first prompt [[say:1. One.\n2. Two.]]")
    await play.taken("the first prompt")
    await play.done("before it is resumed")


async def resumed(play: Play) -> None:
    await play.starts("resumed")
    play.rec.moment("ready", "a resumed conversation")
    await play.held("in a resumed conversation", samples=2)
    await play.stopped("interrupted in a resumed conversation")
    await play.asked(play.yard.asking("touch no.txt"), "a command in a resumed conversation", play.looks.dialog)
    await play.stopped("after a no in a resumed conversation")
    await play.leaves()


async def first_run(play: Play) -> None:
    """Screens that stand before the box: each is left by the answer that grants nothing, if it leads on."""
    for what, word, keys in FIRST_RUN_SCREENS[play.yard.agent]:
        await play.rec.shown(word)
        await play.rec.still(1)
        play.rec.moment("asking", what)
        await play.rec.press(*keys)
    await play.killed("it has just been asked", turn=False)


Playing = Callable[[Play], Awaitable[None]]
