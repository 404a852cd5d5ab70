"""The scripted agent with a screen: `ostler-script-agent --tui`, a full-screen program like those of real agents.

A prompt box, a busy line, permission dialogs, placeholders for long pastes, titles, OSC 7501, hooks (`--hooks=FILE`,
see `tui_hooks`) and a transcript (the file of the conversation: the records of each turn), driven by the same
scenarios. Its own table:

    [tui]
    start_delay = 0.5           # seconds before the box is there
    dialog = "trust"            # a first-run screen (trust, update or login) whose default is no
    swallow_enter = 1           # so many Enters do nothing
    swallow_paste = 1           # so many pastes get lost
    status = false              # asks for and sends no OSC 7501
    titles = false              # sets no title
    hooks = false | ["Stop"]    # which hooks it fires, of those it was given
    transcript = false          # it keeps nothing of what is said

Enter submits, also while it works: then the prompt waits. Escape interrupts, and puts back a prompt that nothing has
come of yet. `/exit`, Ctrl-D, or Ctrl-C twice leave.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import termios
import threading
import time
import tty

from ostler.testing import scenario as scenarios
from ostler.testing.children import AgentExit, Interrupted, leave
from ostler.testing.memory import Memory
from ostler.testing.play_turn import at_home, perform
from ostler.testing.steps import Play, Setting
from ostler.testing.tui_hooks import Hooks, denial
from ostler.testing.tui_input import Keys, Press
from ostler.testing.tui_screen import INTERRUPTED, TuiView, pasted, rows

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

APP = "ostler-script"
ENTER_SCREEN = "\x1b[?1049h\x1b[?2004h\x1b[H\x1b[2J"
LEAVE_SCREEN = "\x1b[?2004l\x1b[?25h\x1b[?1049l"
TICK = 0.1
YES, ALWAYS, NO = "Yes", "Yes, and don't ask again", "No, and say what to do instead (esc)"
ANSWERS = ("allow_once", "allow_always", "reject_once")
FIRST_RUN = {
    "trust": ("Do you trust the files in this folder?\n{folder}", ("No, exit", "Yes, proceed")),
    "update": ("A new version is available. Update now?", ("Update now", "Skip")),
    "login": ("You are not logged in. Choose how to log in:", ("Account with a subscription", "API key")),
}


def run_tui(options: dict[str, Any], scenario: dict[str, Any], scripted: bool, env: dict[str, str]) -> int:
    """Plays turns until somebody leaves. Raises BadScenario without a terminal."""
    if not (os.isatty(0) and os.isatty(1)):
        raise scenarios.BadScenario("--tui needs a terminal")
    memory, speed = at_home(env)
    session = memory.open(options.get("session-id"), options.get("resume"), "fork" in options)
    given = {"session_id": session, "cwd": os.getcwd(), "transcript_path": memory.path, "pid": os.getpid()}
    wanted = scenario.get("tui", {})
    memory.keeps = wanted.get("transcript", True)
    hooks = Hooks(options.get("hooks"), given, wanted.get("hooks", True))
    before = termios.tcgetattr(0)
    screen = TuiDisplay(wanted)
    try:
        tty.setraw(0)
        screen.write(ENTER_SCREEN)
        return Tui(screen, wanted, hooks, memory, session).play(options, scenario, scripted, speed)
    finally:
        screen.close()
        termios.tcsetattr(0, termios.TCSANOW, before)
        print(f"To go on: ostler-script-agent --tui --resume={session}")


class TuiDisplay:
    """The terminal: whole screens are drawn, by whichever thread has something new."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self.view = TuiView(f"Scripted agent · {os.getcwd()}")
        self._titles = wanted.get("titles", True)
        self._asks_status = wanted.get("status", True)
        self._status = False  # the terminal takes OSC 7501
        self._shown: list[str] = []
        self._lock = threading.RLock()
        self._closed = False

    def write(self, text: str) -> None:
        with self._lock:
            if not self._closed:
                sys.stdout.write(text)
                sys.stdout.flush()

    def ask_for_status(self) -> None:
        """Who answers before it tells its own kind (DA1) takes OSC 7501."""
        self.write("\x1b]7501;?\x07\x1b[c" if self._asks_status else "\x1b[c")

    def status_is_taken(self) -> None:
        self._status = True

    def state(self, state: str, mark: str) -> None:
        """Tells what it does: by its title, and by OSC 7501 where that is taken."""
        title = f"\x1b]2;{mark} Script\x07" if self._titles else ""
        self.write(title + (f"\x1b]7501;state={state}:app={APP}\x1b\\" if self._status else ""))

    def draw(self) -> None:
        """Writes the rows that changed."""
        with self._lock:
            size = os.get_terminal_size(1)
            new = rows(self.view, size.columns, size.lines)
            if len(new) != len(self._shown):
                self._shown = []
                self.write("\x1b[2J")
            changed = [n for n, row in enumerate(new) if not self._shown or self._shown[n] != row]
            drawn = "".join(f"\x1b[{n + 1};1H\x1b[2K{new[n]}" for n in changed)
            self._shown = new
            self.write(f"\x1b[?2026h\x1b[?25l{drawn}\x1b[?2026l" if drawn else "")

    def close(self) -> None:
        self.write(LEAVE_SCREEN)
        with self._lock:
            self._closed = True


class Tui:
    """The program: one thread reads keys, this one plays."""

    def __init__(self, screen: TuiDisplay, wanted: dict[str, Any], hooks: Hooks, memory: Memory, session: str) -> None:
        self.screen, self.view, self.hooks, self.memory, self.session = screen, screen.view, hooks, memory, session
        self._wanted = wanted
        self._prompts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._pastes: dict[str, str] = {}  # placeholder → what it stands for
        self._swallow = {"enter": int(wanted.get("swallow_enter", 0)), "paste": int(wanted.get("swallow_paste", 0))}
        self._playing = False
        self._leaving = 0  # Ctrl-C in a row
        self._replied = threading.Event()  # the terminal said what it is
        self._ready = False
        self._done = threading.Event()

    def play(self, options: dict[str, Any], scenario: dict[str, Any], scripted: bool, speed: float) -> int:
        signal.signal(signal.SIGUSR1, self._interrupted)
        signal.signal(signal.SIGWINCH, lambda *_: self.screen.draw())
        for work in (self._read, self._spin):
            threading.Thread(target=work, daemon=True).start()
        self.screen.ask_for_status()
        self._replied.wait(1.0)
        time.sleep(float(self._wanted.get("start_delay", 0)) * speed)
        if (dialog := self._wanted.get("dialog")) and not self._first_run(dialog):
            return 1
        self.hooks.fire("SessionStart", source="resume" if options.get("resume") else "startup")
        self._ready = True
        self._idle()
        reason = "other"
        try:
            while (prompt := self._prompts.get()) is not None:
                self._turn(prompt, options, scenario, scripted, speed)
            reason = "prompt_input_exit"
            return 0
        finally:
            self._done.set()
            self.hooks.fire("SessionEnd", reason=reason)

    def _first_run(self, name: str) -> bool:
        question, answers = FIRST_RUN[name]
        return answers[self._choose(question.format(folder=os.getcwd()), answers)] not in ("No, exit", "Update now")

    def _idle(self, state: str = "idle") -> None:
        self.view.busy = False
        self.screen.state(state, "◇")
        self.screen.draw()

    # -- one turn

    def _turn(
        self, prompt: str, options: dict[str, Any], scenario: dict[str, Any], scripted: bool, speed: float
    ) -> None:
        self.view.lines += ["", f"> {pasted(prompt, 1)}"]
        self.view.busy = True
        self.screen.state("working", "◐")
        self.screen.draw()
        self.hooks.begin_prompt()
        self.hooks.fire("UserPromptSubmit", prompt=prompt)
        self.memory.launched(sys.argv, self.session, prompt)
        setting = Setting(prompt, self.session, list(self.memory.history), {**options, "dialog": True}, speed)
        play = TuiPlay(setting, self)
        try:
            self._playing = True
            perform(play, scenario, scripted, self.memory)
            self._playing = False
        except Interrupted:
            self._playing = False
            self.memory.remember(interrupted="yes")
            if not play.has_output:  # like claude
                self._paste(prompt)
            self._add_line(INTERRUPTED)  # like the real ones it fires no hook then
            self._idle()
        else:
            self._ended(play)
        self.memory.history.append(prompt)

    def keep(self, record: dict[str, Any]) -> None:
        """Writes a record into the transcript: what is whole, not each piece of it."""
        if not str(record.get("kind", "")).endswith("_delta"):
            self.memory.remember(**record)

    def _ended(self, play: TuiPlay) -> None:
        self.keep(play.result())
        if play.error:
            self._add_line(f"✗ {play.error}")
            self.hooks.fire("StopFailure", error=play.error)
        else:
            self.hooks.fire("Stop", last_assistant_message=play.text, stop_hook_active=False)
        self._idle("done")

    def _add_line(self, text: str) -> None:
        self.view.lines.append(text)
        self.screen.draw()

    def show(self, record: dict[str, Any]) -> None:
        """A record of the turn, as a person sees it."""
        match record.get("kind"):
            case "text":
                self._add_line(f"● {record['text']}")
            case "thought":
                self._add_line(f"∴ {record['text']}")
            case "tool_started":
                self._add_line(f"⏺ {record['name']}({record.get('title', '')})")
            case "tool_ended":
                self._add_line(f"  ⎿ {str(record.get('output', '')).strip()[:500]}")
            case "limited":
                self._add_line(f"⚠ {record.get('message') or 'retrying'}")
            case "notice":
                self._add_line(str(record.get("text", "")))

    def ask(self, tool: str, what: str) -> str:
        """Asks for permission by a dialog; the kind of the answer."""
        self.screen.state("blocked", "✋")
        self.hooks.fire("Notification", notification_type="permission_prompt", message=f"{tool} needs permission")
        answer = ANSWERS[self._choose(f"Allow {tool}?\n{what}", (YES, ALWAYS, NO))]
        self.screen.state("working", "◐")
        return answer

    def _choose(self, question: str, options: tuple[str, ...]) -> int:
        self.view.question, self.view.options, self.view.chosen = question, options, 0
        self.screen.draw()
        try:
            return self._answers.get()
        finally:
            self.view.question, self.view.options = "", ()
            if self._ready:  # else the box would be seen before it takes anything
                self.screen.draw()

    # -- keys

    def _read(self) -> None:
        keys = Keys()
        while True:
            try:
                data = os.read(0, 65536)
            except OSError:
                data = b""
            if not data:  # the terminal is gone
                os.kill(os.getpid(), signal.SIGTERM)
                return
            for press in keys.feed(data):
                self._press(press)
            self.screen.draw() if self._ready or self.view.question else None

    def _press(self, press: Press) -> None:
        if press.kind == "status":
            self.screen.status_is_taken()
        elif press.kind == "reply":
            self._replied.set()
        elif self.view.question:
            self._press_in_dialog(press)
        elif self._ready:
            self._press_in_box(press)

    def _press_in_dialog(self, press: Press) -> None:
        last = len(self.view.options) - 1
        if press.kind in ("up", "down"):
            self.view.chosen = max(0, min(last, self.view.chosen + (1 if press.kind == "down" else -1)))
        elif press.kind == "enter":
            self._answers.put(self.view.chosen)
        elif press.kind == "text" and press.text.isdigit() and 1 <= int(press.text) <= last + 1:
            self._answers.put(int(press.text) - 1)
        elif press.kind == "escape":
            self._answers.put(last)
        elif press.kind == "interrupt":
            self._interrupt()

    def _press_in_box(self, press: Press) -> None:
        self._leaving = self._leaving + 1 if press.kind == "interrupt" else 0
        match press.kind:
            case "text":
                self.view.box += press.text
            case "newline":
                self.view.box += "\n"
            case "paste":
                self._paste(press.text)
            case "backspace":
                self.view.box = self.view.box[:-1]
            case "enter":
                self._submit()
            case "escape":
                self._interrupt()
            case "interrupt":
                self._interrupt_or_leave()
            case "end" if not self.view.box:
                self._prompts.put(None)

    def _paste(self, text: str) -> None:
        if self._swallow["paste"]:
            self._swallow["paste"] -= 1
            return
        shown = pasted(text, len(self._pastes) + 1)
        if shown != text:
            self._pastes[shown] = text
        self.view.box += shown

    def _submit(self) -> None:
        if self._swallow["enter"]:
            self._swallow["enter"] -= 1
            return
        prompt = self.view.box
        for shown, text in self._pastes.items():
            prompt = prompt.replace(shown, text)
        self.view.box, self._pastes = "", {}
        if prompt in ("/exit", "/quit"):  # with white space before it, it is text
            self._prompts.put(None)
        elif prompt.strip():
            self._prompts.put(prompt)

    def _interrupt_or_leave(self) -> None:
        if self._leaving > 1 or not (self._playing or self.view.box):
            self._prompts.put(None)
        self.view.box = ""
        self._interrupt()

    def _interrupt(self) -> None:
        if self._playing:
            os.kill(os.getpid(), signal.SIGUSR1)

    def _interrupted(self, number: int, frame: object) -> None:
        if self._playing:
            leave(Interrupted(130))

    def _spin(self) -> None:
        while not self._done.wait(TICK):
            if self.view.busy:
                self.view.frame += 1
                self.screen.draw()


class TuiPlay(Play):
    """A turn that is shown instead of written."""

    def __init__(self, setting: Setting, tui: Tui) -> None:
        super().__init__(setting)
        self._tui = tui
        self._asked: dict[str, Any] = {}
        self.answer_to: Callable[[str], str] | None = self._answer

    @property
    def has_output(self) -> bool:
        return bool(self.text or self._tools)

    @property
    def error(self) -> str:
        """Why the turn failed; "" if it did not."""
        return "" if self._result["ok"] else str(self._result["error"].get("message", "failed"))

    def result(self) -> dict[str, Any]:
        """The record that ends the turn in the transcript."""
        return {**self._result, "text": self.text, "steps": self._tools + 1} if not self.error else self._result

    def record(self, **record: Any) -> None:
        self._tui.keep(record)
        if record.get("kind") == "asked":
            self._asked = record
        elif record.get("kind") == "tool_ended":
            self._tui.hooks.fire("PostToolUse", tool_use_id=record["id"], tool_response=record.get("output"))
        self._tui.show(record)

    def raw(self, data: bytes) -> None:
        self._tui.screen.write(data.decode("utf-8", "replace"))

    def step_stderr(self, text: str) -> None:
        self._tui.show({"kind": "notice", "text": text})

    def finish(self) -> int:
        raise AgentExit(1)  # a turn with a screen has no result to write

    def _answer(self, id: str) -> str:
        input = self._asked.get("input")
        what = self._asked.get("title") or (input.get("command") if isinstance(input, dict) else input) or ""
        return self._tui.ask(str(self._asked.get("tool", "a tool")), str(what))

    def _tool(self, name: str, title: str, input: Any, **more: Any) -> str:
        id = super()._tool(name, title, input, **more)
        reason = denial(self._tui.hooks.fire("PreToolUse", tool_name=name, tool_input=input, tool_use_id=id))
        if reason is not None:
            self._denied[id] = reason
        return id

    def _refused(self, tool: str, id: str, target: str, needed: str = "read") -> bool:
        if reason := self._denied.get(id):
            self.record(kind="tool_ended", id=id, ok=False, output=f"refused: {reason}", denied=True)
            return True
        return super()._refused(tool, id, target, needed)
