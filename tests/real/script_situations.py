"""The scripted agent's own screen, through the same situations as those of the real CLIs.

Its prompts say what it does: `[[wait_for:FILE]]` holds it until the file is there, `[[ask:…]]` opens a dialog.
"""

import asyncio
import json
import os
import sys
import uuid
from pathlib import Path

from ostler.agents.tui import Status
from ostler.model import Turn
from ostler.settings import load_settings
from ostler.work import Ostler
from real.tui_recorder import Recorder

BOX = r"Type your message"
LONG = "a line among many, to be read\n" * 60


class ScriptPlay:
    """One program. `gate` is a file that lets it go on."""

    def __init__(self, rec: Recorder, base: Path, tricky: str) -> None:
        self.rec, self.base, self.tricky = rec, base, tricky
        self.opened = 0.0

    async def prompt(self, text: str) -> None:
        await self.rec.pasted(text)
        await self.submit(text)

    async def submit(self, text: str) -> None:
        """Until it has the prompt: it stands in its file."""
        before = len(self.rec.lines)
        await self.rec.submit(text)
        await self.rec.until(lambda: any("transcript" in line for line in self.rec.lines[before:]), "the prompt")

    async def moments(self, status: Status, what: str, count: int = 2) -> None:
        for n in range(count):
            await asyncio.sleep(0.5)
            self.rec.moment(status, f"{what}, {n + 1}")

    async def done(self, what: str, how: str = "done") -> None:
        await self.rec.still(1)
        self.rec.moment("ready", what)
        self.rec.lines.append({"t": self.opened, "over": how})

    def open(self, name: str) -> None:
        """Lets it go on: from now on it may be done."""
        self.opened = round(self.rec.lines[-1]["t"], 2)
        (self.base / "project" / name).touch()

    async def held(self, what: str, before: str, name: str) -> None:
        await self.prompt(f"{before}[[wait_for:{name}]][[say:Gone on.]]")
        await self.moments("busy", what)
        self.open(name)
        await self.done(f"after: {what}")

    async def asked(self, what: str, answer: str) -> None:
        ask = {"tool": "shell", "input": {"command": f"touch {answer}"}, "then": [{"say": "Made."}]}
        await self.prompt(f"[[ask:{json.dumps(ask)}]]")
        await self.rec.shown(r"Allow shell")
        await self.moments("asking", what)
        await self.rec.press("ArrowDown")
        self.rec.moment("asking", f"{what}: another option is marked")
        await self.rec.press("ArrowUp")
        self.opened = round(self.rec.lines[-1]["t"], 2)
        await self.rec.press(answer)
        await self.done(f"after: {what}, {answer}", "done")


async def whole(play: ScriptPlay) -> None:
    rec = play.rec
    rec.moment("starting", "just started: nothing is drawn")
    await rec.shown(BOX)
    await rec.still(0.6)
    rec.moment("ready", "ready")
    await rec.type("say something")
    await rec.still(0.4)
    rec.moment("ready", "text is typed in the box")
    await rec.erase(13)
    await rec.pasted("1. Yes\n2. No")
    rec.moment("ready", "a numbered list in the box")
    await rec.erase(14)
    await rec.still(0.4)
    await rec.pasted(f"{LONG}[[say:Read.]]")
    rec.moment("ready", "a long paste in the box")
    play.opened = round(rec.lines[-1]["t"], 2)
    await play.submit(f"{LONG}[[say:Read.]]")
    await play.done("after a long prompt")
    await play.held("it is held", "", "one")
    await play.held("it thinks", "[[think:about it]]", "two")
    await play.held("below an answer that looks like a dialog", f"[[say:{play.tricky}]]", "three")
    await play.held("a tool runs", "[[run:true]]", "four")
    await play.asked("a command is asked for", "1")
    await play.asked("a second command is asked for", "3")
    await play.prompt("[[never_end:true]]")
    await play.moments("busy", "before an interrupt")
    play.opened = round(rec.lines[-1]["t"], 2)
    await rec.press("Escape")
    await play.done("interrupted", "interrupted")
    await play.prompt("[[fail:overloaded]]")
    play.opened = round(rec.lines[-1]["t"], 2)
    await play.done("after an error", "failed")
    await rec.type("/exit")
    await rec.press("Enter")
    await rec.until(lambda: rec.exited, "the end")
    rec.moment("ended", "left by /exit")


async def killed(play: ScriptPlay) -> None:
    await play.rec.shown(BOX)
    await play.rec.still(0.6)
    await play.prompt("[[never_end:true]]")
    await play.moments("busy", "before it is killed", 1)
    play.rec.over("ended")
    assert play.rec.program.row.pid
    os.kill(play.rec.program.row.pid, 9)
    await play.rec.until(lambda: play.rec.exited, "the end")
    play.rec.moment("ended", "killed while it works")


async def first_run(play: ScriptPlay) -> None:
    await play.rec.shown(r"❯ 1\.")
    await play.rec.still(0.6)
    play.rec.moment("asking", "a first-run screen")


PLAN = {
    **{f"whole-{cols}x{rows}": ((cols, rows), "", whole) for cols, rows in ((80, 24), (120, 30), (200, 50))},
    "killed": ((120, 30), "", killed),
    **{f"first-run-{name}": ((80, 24), f'dialog = "{name}"', first_run) for name in ("trust", "update", "login")},
}


async def record(name: str, base: Path, target: Path, tricky: str) -> None:
    size, tui, playing = PLAN[name]
    for folder in ("home", "project", "state"):
        (base / folder).mkdir(mode=0o700)
    scenario = base / "scenario.toml"
    scenario.write_text(f"[tui]\n{tui}\n")
    env = {
        "HOME": str(base / "home"),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "OSTLER_HOME": str(base / "state"),
        "OSTLER_SCENARIO": str(scenario) if tui else "",
    }
    settings = load_settings(folder=str(base / "project"), environ=env).settings
    async with Ostler(settings, env) as o:
        live = await o.session("script", folder=str(base / "project"), access="full")
        await o.store.add_session(live.row)
        turn = Turn(
            id=f"{live.id}-t",
            session=live.id,
            agent="script",
            prompt="x",
            folder=str(base / "project"),
            access="full",
            transport="pty",
            agent_session=str(uuid.uuid4()),
        )
        rec = await Recorder.start(o, live, turn, size)
        try:
            await playing(ScriptPlay(rec, base, tricky))
        finally:
            await rec.close()
            rec.save(target, "")
