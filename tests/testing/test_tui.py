"""The scripted TUI as a real program in a real terminal, whose replies are those of the emulator."""

import json
import os
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.terminal.emulator import Emulator
from waiting import PATIENCE, ends, wait_until

COLS, ROWS = 100, 24
READY = "❯ Type your message"


class Terminal:
    """The TUI on a PTY, and the screen that a person sees."""

    def __init__(self, folder: Path, scenario: dict[str, Any], *flags: str, answers: bool = True) -> None:
        (folder / "scenario.json").write_text(json.dumps(scenario))
        self.folder, self._answers = folder, answers
        self.master, slave = os.openpty()
        termios.tcsetwinsize(slave, (ROWS, COLS))
        self.emulator = Emulator(COLS, ROWS)
        self.states: list[str] = []
        self.titles: list[str] = []
        env = {**os.environ, "OSTLER_SCRIPT_HOME": str(folder / "home"), "OSTLER_SCRIPT_SPEED": "0"}
        argv = [sys.executable, "-m", "ostler.testing.agent", "--tui", f"--scenario={folder}/scenario.json", *flags]
        self.process = subprocess.Popen(
            argv, cwd=folder, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)

    @property
    def screen(self) -> str:
        return "\n".join(self.emulator.snapshot(0).text)

    def until(self, met: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not met():
            assert time.monotonic() < deadline, self.screen
            self._read(0.05)

    def shows(self, text: str) -> None:
        self.until(lambda: text in self.screen)

    def type(self, data: bytes) -> None:
        os.write(self.master, data)

    def send(self, prompt: str) -> None:
        """As a careful driver does it: a paste, and Enter once the paste is in the box."""
        self.type(b"\x1b[200~" + prompt.encode() + b"\x1b[201~")
        self.until(lambda: READY not in self.screen)
        self.type(b"\r")

    def exit(self) -> int:
        self.until(lambda: self.process.poll() is not None)
        return int(self.process.returncode)

    def transcript(self) -> list[dict[str, Any]]:
        [path] = (self.folder / "home" / "sessions").iterdir()
        lines = [json.loads(line) for line in path.read_text().splitlines()][1:]
        return [line for line in lines if "kind" not in line and "type" not in line]

    def records(self) -> list[dict[str, Any]]:
        [path] = (self.folder / "home" / "sessions").iterdir()
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [line for line in lines if "kind" in line or "type" in line]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        self.emulator.close()

    def _read(self, seconds: float) -> None:
        if not select.select([self.master], [], [], seconds)[0]:
            return
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the program has left
            return
        reply = self.emulator.feed(data)
        if facts := self.emulator.facts():
            self.states += [state.split(":")[0].removeprefix("state=") for state in facts.states]
            self.titles += [facts.title] if facts.title else []
        if not self._answers:
            reply = reply.replace(b"\x1b]7501;?ostler\x1b\\", b"")
        if reply:
            os.write(self.master, reply)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    started: list[Terminal] = []

    def begin(*steps: dict[str, Any], flags: tuple[str, ...] = (), answers: bool = True, **tui: Any) -> Terminal:
        scenario = {"reply": [{"steps": list(steps)}], "tui": tui}
        started.append(Terminal(tmp_path, scenario, *flags, answers=answers))
        return started[-1]

    yield begin
    for each in started:
        each.close()


def hooked(folder: Path, *events: str, answer: str = "") -> str:
    """Hooks that append what they are told to a file; the flag that names them."""
    command = f"cat >> {folder}/hooks.ndjson; echo >> {folder}/hooks.ndjson; printf '%s' '{answer}'"
    table = {event: [{"hooks": [{"type": "command", "command": command}]}] for event in events}
    (folder / "hooks.json").write_text(json.dumps({"hooks": table}))
    return f"--hooks={folder}/hooks.json"


def told(folder: Path) -> list[dict[str, Any]]:
    path = folder / "hooks.ndjson"
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


def test_a_prompt_is_pasted_sent_and_answered(start: Callable[..., Terminal]) -> None:
    tui = start({"stream": "All done."})
    tui.shows(READY)
    tui.send("say \"it\"; 'now' 😀\nplease")
    tui.shows("● All done.")
    tui.until(lambda: tui.states[-1:] == ["done"])
    assert tui.states == ["idle", "working", "done"]
    assert tui.titles[-1] == "◇ Script"  # those between may have come at once: only the last one counts
    assert tui.transcript() == [{"prompt": "say \"it\"; 'now' 😀\nplease"}, {"text": "All done."}]
    assert tui.records() == [
        {"kind": "text", "text": "All done.", "id": "m1"},
        {"type": "result", "ok": True, "text": "All done.", "steps": 1},
    ]
    tui.send("/exit")
    assert tui.exit() == 0


def test_a_long_paste_is_shown_by_a_placeholder_and_sent_whole(start: Callable[..., Terminal]) -> None:
    tui = start({"say": "Read."})
    tui.shows(READY)
    text = "line\n" * 20_000
    tui.type(b"\x1b[200~")
    for at in range(0, len(text), 4000):
        tui.type(text[at : at + 4000].encode())
        tui._read(0)
    tui.type(b"\x1b[201~")
    tui.shows("[Pasted text #1 +20001 lines]")
    tui.type(b"\r")
    tui.shows("● Read.")
    assert tui.transcript()[0] == {"prompt": text}


def test_a_dialog_is_answered_by_keys(start: Callable[..., Terminal]) -> None:
    ask = {"ask": {"tool": "shell", "input": {"command": "rm x"}, "then": [{"say": "Removed."}]}}
    tui = start(ask, {"say": "Next."})
    for keys, said in ((b"1", "● Removed."), (b"\x1b[B\x1b[B\r", "● Next."), (b"\x1b", "● Next.")):
        tui.shows(READY)
        tui.send("go")
        tui.shows("Allow shell?")
        assert "rm x" in tui.screen and "❯ 1. Yes" in tui.screen
        tui.type(keys)
        tui.shows(said)
    assert "blocked" in tui.states


def test_an_interrupt_ends_the_turn_and_fires_no_hook(start: Callable[..., Terminal], tmp_path: Path) -> None:
    wait = f"sleep 600 & echo $! > {tmp_path}/pid; wait"
    tui = start({"run": wait}, flags=("--access=full", hooked(tmp_path, "Stop", "UserPromptSubmit")))
    tui.shows(READY)
    tui.send("go")
    pid = wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    tui.type(b"\x1b")
    tui.shows("■ Interrupted")
    tui.until(lambda: tui.states[-1:] == ["idle"])
    assert [event["hook_event_name"] for event in told(tmp_path)] == ["UserPromptSubmit"]
    assert tui.transcript()[-1] == {"interrupted": "yes"}
    assert ends(pid)


def test_hooks_come_in_order_and_one_can_deny_a_tool(start: Callable[..., Terminal], tmp_path: Path) -> None:
    events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")
    answer = {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "not today"}}
    tui = start({"run": "touch made"}, {"say": "Over."}, flags=(hooked(tmp_path, *events, answer=json.dumps(answer)),))
    tui.shows(READY)
    tui.send("go")
    tui.shows("● Over.")
    assert "refused: not today" in tui.screen and not (tmp_path / "made").exists()
    tui.shows(READY)
    tui.send("/exit")
    assert tui.exit() == 0
    heard = told(tmp_path)
    assert [event["hook_event_name"] for event in heard] == list(events)
    assert heard[4]["last_assistant_message"] == "Over."
    assert len({(event["session_id"], event["cwd"], event["transcript_path"]) for event in heard}) == 1


def test_it_can_be_slow_deaf_silent_and_ask_first(start: Callable[..., Terminal]) -> None:
    tui = start({"say": "Here."}, dialog="trust", swallow_enter=1, titles=False, status=False)
    tui.shows("Do you trust the files in this folder?")
    assert "❯ 1. No, exit" in tui.screen
    tui.type(b"2")
    tui.shows(READY)
    tui.send("go")
    tui.type(b"\r")  # the first Enter did nothing
    tui.shows("● Here.")
    assert (tui.states, tui.titles) == ([], [])


def test_a_terminal_that_does_not_take_its_state_is_not_told(start: Callable[..., Terminal]) -> None:
    tui = start({"say": "Here."}, answers=False)
    tui.shows(READY)
    tui.send("go")
    tui.shows("● Here.")
    assert tui.states == [] and tui.titles


def test_who_does_not_trust_the_folder_leaves(start: Callable[..., Terminal]) -> None:
    tui = start(dialog="trust")
    tui.shows("Do you trust")
    tui.type(b"\r")
    assert tui.exit() == 1


def test_an_error_of_the_model_is_shown_and_hooked(start: Callable[..., Terminal], tmp_path: Path) -> None:
    failure = {"fail": {"kind": "overloaded", "message": "API Error: 529"}}
    tui = start(failure, flags=(hooked(tmp_path, "Stop", "StopFailure"),))
    tui.shows(READY)
    tui.send("go")
    tui.shows("✗ API Error: 529")
    tui.until(lambda: told(tmp_path))
    assert [(event["hook_event_name"], event["error"]) for event in told(tmp_path)] == [
        ("StopFailure", "API Error: 529")
    ]


def test_it_needs_a_terminal(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "ostler.testing.agent", "--tui"]
    done = subprocess.run(argv, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "ostler-script-agent: --tui needs a terminal\n")
