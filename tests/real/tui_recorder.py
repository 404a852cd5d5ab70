"""Records an agent's own screen, with what it says of itself and what is known of the moment, for tests/captures/tui.

What a moment is labelled with comes from whoever plays the situation (`record_tui.py`): what the scripted model holds
back, which dialog was opened, whether the process lives. Nothing here asks an adapter for a status.
"""

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import structs

from ostler.agents.tui import Status, TranscriptReader, TuiFace
from ostler.model import Turn
from ostler.store.files import turn_folder
from ostler.terminal.lease import Author
from ostler.terminal.screen.protocol import Modes, Snapshot, Update
from ostler.terminal.viewer_protocol import SendBytes
from ostler.testing.model import Exchange, ScriptedModel
from ostler.work import LiveSession, Ostler
from ostler.work.terminals.programs import ProgramOptions
from ostler.work.terminals.pty_terminal import PtyTerminal
from ostler.work.transports.launch_files import place_files
from ostler.work.transports.transport import Attempt
from ostler.work.tuis.transcript import Transcript
from ostler.work.tuis.typing import Typist, pasted
from ostler.work.turns.prepare import prepare

TICK = 0.1
FRAME = 0.4  # seconds between two frames that are kept, unless something is said meanwhile
PATIENCE = 60.0
STILL = 1.5  # seconds without a change after which a screen counts as drawn
_COLOUR = re.compile(r"\b[34]8[;:](?:5[;:]\d+|2(?:[;:]\d+){3})")
_FAINT = re.compile(r"\x1b\[(?:\d*;)*2(?:;\d*)*m")


class TimedModel(ScriptedModel):
    """Knows when the last byte of each answer went off."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.ended_at: dict[int, float] = {}
        self._lock = threading.Lock()

    def note(self, exchange: Exchange, **changes: Any) -> None:
        if changes.get("ended"):
            with self._lock:
                self.ended_at[id(exchange)] = time.monotonic()
        super().note(exchange, **changes)

    def last_byte(self) -> float:
        return max(self.ended_at.values(), default=0.0)


class Recorder:
    """One program in one terminal, from its start to its end. `lines` is the recording."""

    def __init__(self, o: Ostler, live: LiveSession, attempt: Attempt, program: PtyTerminal) -> None:
        assert attempt.agent.tui is not None
        self.attempt, self.program = attempt, program
        self.face: TuiFace = attempt.agent.tui
        self.typist = Typist(program.live, live.id)
        self.author = Author("ostler", "automation", live.id)
        self.modes = Modes()
        self.began = time.monotonic()
        self.rows: list[str] = []
        self.exited = False
        self.changed_at = self.began
        self.lines: list[dict[str, Any]] = []
        self._styled: list[str] = []
        self._kept: tuple[list[str], list[str]] = ([], [])
        self._kept_at = 0.0
        self.state = ""
        self._title = ""
        self._transcript = Transcript(attempt.agent, attempt.env.get("HOME", ""), attempt.env)
        self._reader: TranscriptReader | None = None
        self._heard = ""
        self._subscription = program.live.subscribe(buffer=4096)
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._tick())]

    @classmethod
    async def start(
        cls,
        o: Ostler,
        live: LiveSession,
        turn: Turn,
        size: tuple[int, int],
        without: tuple[str, ...] = (),
        bare: bool = False,
    ) -> "Recorder":
        """`without` are variables that the adapter sets and a person's shell has not; `bare`: nor are there flags."""
        attempt = await prepare(o.setup, turn)
        turn_folder(o.store.folder, live.id, turn.id)  # private: files of the launch are put there
        place_files(attempt)
        env = {name: value for name, value in attempt.env.items() if name not in without}
        options = ProgramOptions(
            attempt.launch.argv[:1] if bare else attempt.launch.argv,
            folder=turn.folder,
            env={name: value for name, value in env.items() if name.startswith("OSTLER_")},
            cols=size[0],
            rows=size[1],
            called=turn.agent,
            base=env,
        )
        program = await o.terminals.open_program(live.id, options)
        made = cls(o, live, attempt, program)
        made.note(agent=turn.agent, version="", size=list(size))
        return made

    @property
    def conversation(self) -> str | None:
        """The agent's own id of it, as its file tells."""
        return self._reader.agent_session if self._reader is not None else None

    # -- what is kept

    def note(self, **line: Any) -> None:
        self.lines.append({"t": round(time.monotonic() - self.began, 2), **line})

    def moment(self, status: Status, what: str) -> None:
        """The screen as it is now, in a situation that is known."""
        self._keep()
        self.note(moment=status, what=what)
        print(f"    {status:9} {what}", flush=True)

    def over(self, how: str, at: float | None = None) -> None:
        """The turn is over: the model's last byte, a key that stops it, the end of the process."""
        self._keep()
        self.lines.append({"t": round((at or time.monotonic()) - self.began, 2), "over": how})

    def save(self, path: Path, version: str) -> None:
        self.lines[0]["version"] = version
        first, *rest = self.lines
        lines = [first, *sorted(rest, key=lambda line: line["t"])]
        path.write_text("".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines))

    def _keep(self) -> None:
        """What changed since the last frame."""
        rows, styled = self._kept
        if len(rows) != len(self.rows):
            rows, styled = [""] * len(self.rows), [""] * len(self.rows)
        changed = {str(y): row for y, row in enumerate(self.rows) if row != rows[y]}
        faint = {str(y): row for y, row in enumerate(self._faint()) if row != styled[y]}
        if changed or faint:
            self.note(**({"rows": changed} if changed else {}), **({"faint": faint} if faint else {}))
            self._kept = (list(self.rows), self._faint())
            self._kept_at = time.monotonic()

    def _faint(self) -> list[str]:
        """Rows as VT where something is drawn faint: all else looks like its text."""
        return [row if _FAINT.search(_COLOUR.sub("", row)) else "" for row in self._styled]

    # -- what happens

    async def _follow(self) -> None:
        async for seen in self._subscription:
            match seen:
                case Snapshot():
                    self.rows, self._styled, self.modes = list(seen.text), list(seen.styled), seen.modes
                    self._titled(seen.title)
                case Update():
                    self._updated(seen)
                case _:
                    break
            self.changed_at = time.monotonic()
        self._keep()
        self.exited = True
        self.note(exited=True)

    def _updated(self, update: Update) -> None:
        if update.whole or len(self.rows) != update.rows:
            self.rows, self._styled = [""] * update.rows, [""] * update.rows
        for row in update.changed:
            self.rows[row.y], self._styled[row.y] = row.text, row.vt
        self.modes = update.modes
        for state in update.facts.states:
            self._keep()
            self.state = state.partition(":")[0].removeprefix("state=")
            self.note(state=":".join(part for part in state.split(":") if not part.startswith("msg=")))
        if update.facts.title is not None:
            self._titled(update.facts.title)

    def _titled(self, title: str) -> None:
        if title != self._title:
            self._title = title
            self.note(title=title)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            if self._reader is not None:
                self._listen(self._reader)
            if time.monotonic() - self._kept_at > FRAME and time.monotonic() - self.changed_at > 0.02:
                self._keep()

    def _listen(self, reader: TranscriptReader) -> None:
        for record in self._transcript.records():
            reader.read(record)
        if reader.interrupted:
            says = "interrupted"
        elif reader.result is not None:
            says = "done" if reader.result == "ok" else "failed"
        else:
            says = "submitted" if reader.prompted else ""
        if says and says != self._heard:
            self._heard = says
            self.note(transcript=says)

    # -- waiting

    async def until(self, condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} never came\n" + "\n".join(self.rows))
            await asyncio.sleep(0.02)
        return value

    def shows(self, pattern: str) -> bool:
        return any(re.search(pattern, row) for row in self.rows)

    async def shown(self, pattern: str) -> None:
        await self.until(lambda: self.shows(pattern), pattern)

    async def gone(self, pattern: str) -> None:
        await self.until(lambda: not self.shows(pattern), f"the end of {pattern}")

    async def still(self, seconds: float = STILL) -> None:
        """The screen has been drawn: nothing has changed for a while."""
        began = time.monotonic()
        await self.until(
            lambda: self.exited or time.monotonic() - max(self.changed_at, began) >= seconds, "a still screen"
        )

    # -- typing

    async def paste(self, text: str) -> None:
        async with self.typist.at_keyboard():
            await self.typist.paste(text, self.modes, 10)

    async def press(self, *keys: str, pause: float = 0.15) -> None:
        for key in keys:
            async with self.typist.at_keyboard():
                self.typist.press((key,))
            await asyncio.sleep(pause)

    async def type(self, text: str) -> None:
        await self.press(*text, pause=0.03)

    async def send(self, data: bytes) -> None:
        await self.program.live.acquire(self.author)
        self.program.live.input(self.author, SendBytes(data=data))
        self.program.live.release(self.author)

    async def erase(self, count: int) -> None:
        for _ in range(count):
            await self.send(b"\x7f")
            await asyncio.sleep(0.02)

    async def pasted(self, prompt: str) -> None:
        """In the box, and drawn."""
        await self.paste(pasted(prompt))
        await self.still(0.6)

    async def submit(self, prompt: str) -> None:
        """Enter: from now on there is a turn."""
        turn = self._turn(prompt)
        self._reader, self._heard = self.face.reader(turn), ""
        self._reader.sent = pasted(prompt)
        self._transcript.begin(self.face.transcripts(turn), self._is_its_file())
        self._keep()
        self.note(sent=prompt[:200])
        await self.press("Enter")

    def _turn(self, prompt: str) -> Turn:
        return structs.replace(self.attempt.effective_turn, prompt=prompt)

    def _is_its_file(self) -> Any:
        agent, turn = self.attempt.agent, self.attempt.turn
        tell = agent.conversation
        if agent.chooses_id or turn.resume or tell is None:
            return None
        return lambda path, head: (found := tell(path, head)) is not None and found.folder == turn.folder

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._subscription.close()
        if not self.program.stored:
            await self.program.end("KILL")
