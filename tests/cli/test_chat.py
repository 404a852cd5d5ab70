"""`ostler chat` as a person meets it: a real terminal, a real process that stays, asks, Ctrl-C."""

import contextlib
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.in_pty import InPty
from waiting import wait_until

ASK = '[[ask:{"tool": "shell", "input": {"command": "touch made"}, "options": ["allow_once", "allow_always", "reject_once"], "then": [{"run": "touch made"}]}]] [[say:so it is]]'  # noqa: E501
QUESTION = "  [a]llow  [d]eny  al[w]ays  [v]iew ?"

Chat = Callable[..., InPty]


@pytest.fixture
def chat(shell: Any) -> Iterator[Chat]:
    """Starts `ostler …` in a terminal."""
    started: list[InPty] = []

    def start(*args: str, **env: str) -> InPty:
        started.append(InPty(list(args), cwd=shell.folder, env={**shell.environ, **env}, cols=200))
        return started[-1]

    yield start
    for each in started:
        each.close()


def say(pty: InPty, line: str) -> None:
    """Types a prompt or command; it need not wait, and neither does a person."""
    if pty.all == b"":
        pty.until_last_row(">")
    pty.type(line.encode() + b"\r")


def leave(pty: InPty) -> None:
    say(pty, "/exit")
    assert pty.end() == 0
    assert pty.in_order()


def test_turns_of_one_process_and_the_way_out(chat: Chat, shell: Any) -> None:
    pty = chat("chat", "script", "--name", "talk")
    pids = []
    for n in range(2):
        say(pty, f"[[run:echo pid-$PPID-end]] [[say:turn {n}]]")
        pids.append(pty.until(b"-end\x1b").rpartition(b"pid-")[2])
        pty.until(f"turn {n}\r".encode())
        pty.until("✓ done".encode())
    assert len(set(pids)) == 1
    leave(pty)
    rows = pty.screen()
    assert rows[-1] == "continue: ostler chat -s talk"
    assert sum(row.startswith("● script") for row in rows) == 1
    assert "turn 1" in shell("show", "talk").stdout


def test_a_pasted_text_is_one_prompt_and_lines_can_be_typed(chat: Chat, shell: Any) -> None:
    pty = chat("chat", "script", "--name", "talk")
    pty.until_last_row(">")
    pty.type(b"\x1b[200~[[echo:prompt]]\rtwo\n/three\x1b[201~")
    pty.until_last_row("  /three")
    pty.type(b" and\x1b\rfour \\\rfive\r")
    pty.until("✓ done".encode())
    pty.until_last_row(">")
    prompt = ["> [[echo:prompt]]", "  two", "  /three and", "  four", "  five"]
    rows = pty.screen()
    assert rows[1:6] == prompt
    assert [row for row in rows[6:] if row in ("two", "/three and", "four", "five")] == [
        "two",
        "/three and",
        "four",
        "five",
    ]
    leave(pty)
    assert shell("sessions").stdout.splitlines()[1].split()[3:5] == ["1", "turn"]


def test_what_is_typed_stays_and_what_waits_is_seen(chat: Chat, shell: Any) -> None:
    gate, deaf = shell.folder / "gate", shell.folder / "deaf.toml"
    deaf.write_text("steers = false\n")
    pty = chat("chat", "script", OSTLER_SCENARIO=str(deaf))
    say(pty, f"[[say:begun]] [[wait_for:{gate}]] [[stream:and **on**]]")
    pty.until(b"begun\r\n")
    pty.type(b"/steer hurry\r")
    pty.until(b"cannot be steered while it is working")
    pty.type(b"[[say:the next one]]\rand a dra")
    pty.until_last_row("> and a dra")
    assert pty.screen()[-2] == "  next: [[say:the next one]]"
    gate.touch()
    pty.until(b"and \x1b[1mon\x1b[0m\r\n")
    pty.until("✓ done".encode())
    pty.until(b"the next one\r\n")
    pty.until("✓ done".encode())
    pty.until_last_row("> and a dra")
    assert "  next: [[say:the next one]]" not in pty.screen()
    pty.type(b"\x03")  # empties the line
    pty.until(b"press ctrl-c again to leave")
    pty.until_last_row(">")
    pty.type(b"\x04")
    assert pty.end() == 0


@pytest.mark.parametrize(
    ("keys", "said", "made"),
    [
        ([b"a\r"], "allowed", True),
        ([b"\r", b"x\r", b"allow it\r", b"always\r"], "always allowed", True),
        ([b"yes\rd not now\r"], "denied", False),
    ],
)
def test_an_ask_is_answered_by_a_word_never_by_enter(
    chat: Chat, shell: Any, keys: list[bytes], said: str, made: bool
) -> None:
    pty = chat("chat", "script", "--access", "write")
    say(pty, ASK)
    pty.until(b" asks: touch made")
    for key in keys:
        pty.until_last_row(QUESTION)
        assert not (shell.folder / "made").exists()
        pty.type(key)
    pty.until(said.encode())
    pty.until(b" by you")
    pty.until(b"so it is")
    assert (shell.folder / "made").exists() is made
    leave(pty)


def test_what_was_typed_before_a_question_is_no_answer(chat: Chat, shell: Any) -> None:
    gate = shell.folder / "gate"
    pty = chat("run", "--dialog", "script", f"[[say:begun]] [[wait_for:{gate}]] {ASK}", "--access", "write")
    pty.until(b"begun")
    pty.type(b"a\r")
    gate.touch()
    pty.until_last_row(QUESTION)
    pty.type(b"d\r")
    pty.until(b"denied")
    pty.until(b" by you")
    assert pty.end() == 0
    assert not (shell.folder / "made").exists()


def test_view_shows_all_of_it_without_control_characters(chat: Chat) -> None:
    pty = chat("chat", "script", "--access", "write")
    diff = "+".join(f"row {n}\\n" for n in range(40))
    say(pty, f'[[ask:{{"tool": "edit", "input": {{"file_path": "a\\u001b]0;x"}}, "diff": "+{diff}"}}]]')
    pty.until(b" asks: ")
    pty.until_last_row("  [a]llow  [d]eny  [v]iew ?")
    assert b"row 39" not in pty.seen
    pty.type(b"v\r")
    shown = pty.until(b"row 39")
    assert b"\x1b]0" not in shown and b"u001b]0;x" in shown
    pty.until_last_row("  [a]llow  [d]eny  [v]iew ?")
    pty.type(b"d\r")
    pty.until(b"denied")
    pty.until(b" by you")


def test_an_answer_from_another_shell_takes_the_question_away_and_nothing_else(chat: Chat, shell: Any) -> None:
    pty = chat("chat", "script", "--access", "write", "--name", "talk")
    say(pty, f"[[say:before it]] {ASK}")
    pty.until(b"before it\r\n")
    pty.type(b"a thought")  # no answer: it was begun before there was a question, or is none
    pty.until_last_row(QUESTION)
    asked = pty.screen()
    pty.type(b"d beca")
    pty.until_last_row(QUESTION + " d beca")
    listed = shell("answer", "talk").stdout
    assert listed.splitlines()[0] == "? shell asks: touch made" and "allow, deny, always" in listed
    assert shell("answer", "talk", "allow").returncode == 0
    pty.until("✓ done".encode())
    assert (shell.folder / "made").exists()
    pty.until_last_row("> a thought")
    rows = pty.screen()
    at = asked.index("? shell asks: touch made")
    assert rows[: at + 2] == [*asked[: at + 1], "? allowed by you"]
    assert not any("[v]iew" in row for row in rows)


def test_an_answer_from_another_shell_at_a_plain_question(chat: Chat, shell: Any) -> None:
    pty = chat("run", "script", f"[[say:before it]] {ASK}", "--dialog", "--access", "write", "--name", "talk")
    pty.until_last_row(QUESTION)
    asked = pty.screen()
    assert "before it" in asked
    assert shell("answer", "talk", "allow").returncode == 0
    assert pty.end() == 0
    assert pty.screen()[: len(asked)] == [*asked[:-1], "? allowed by you"]


def test_ctrl_c_interrupts_the_turn_not_the_process(chat: Chat, shell: Any) -> None:
    pty = chat("chat", "script")
    say(pty, "[[run:echo pid-$PPID-end]]")
    pid = pty.until(b"-end\x1b").rpartition(b"pid-")[2]
    say(pty, "[[say:begun]] [[never_end]]")
    pty.until(b"begun\r\n")
    pty.type(b"what waits\r")
    pty.until_last_row(">")
    pty.type(b"\x03")
    pty.until(b"cancelled")
    pty.until_last_row("> what waits")  # it did not begin by itself
    pty.type(b"\x15")
    say(pty, "[[run:echo pid-$PPID-end]]")
    assert pty.until(b"-end\x1b").rpartition(b"pid-")[2] == pid
    pty.until("✓ done".encode())
    pty.type(b"\x03")
    pty.until(b"press ctrl-c again to leave")
    pty.type(b"\x03")
    assert pty.end() == 0
    assert pty.in_order()


def test_ctrl_c_twice_in_a_turn_leaves_at_once_and_in_order(chat: Chat, shell: Any) -> None:
    stubborn = shell.folder / "stubborn.toml"
    stubborn.write_text("deaf = true\n")
    pty = chat("chat", "script", OSTLER_SCENARIO=str(stubborn))
    say(pty, "[[never_end]]")
    pty.until(b"ctrl-c interrupts")
    pty.type(b"\x03\x03")
    assert pty.end() == 130
    assert pty.in_order() and pty.all.rstrip(b"\x1b[0m").endswith(b"\x1b[?2004l\x1b[?25h")


def test_ctrl_d_leaves_what_runs_to_its_end(chat: Chat, shell: Any) -> None:
    gate = shell.folder / "gate"
    pty = chat("chat", "script")
    say(pty, f"[[say:begun]] [[wait_for:{gate}]] [[say:ended]]")
    pty.until(b"begun\r\n")
    pty.type(b"\x04")
    pty.until(b"leaving when this turn ends")
    gate.touch()
    pty.until(b"ended\r\n")
    pty.until("✓ done".encode())
    assert pty.end() == 0
    assert pty.in_order()


def test_ctrl_c_at_a_question_ends_the_turn(chat: Chat, shell: Any) -> None:
    pty = chat("chat", "script", "--access", "write")
    say(pty, ASK)
    pty.until_last_row(QUESTION)
    pty.type(b"\x03")
    pty.until(b"cancelled")
    pty.until_last_row(">")
    pty.type(b"\x04")
    assert pty.end() == 0
    assert not (shell.folder / "made").exists()


def test_a_terminal_that_can_only_print(chat: Chat, shell: Any) -> None:
    pty = chat("chat", "script", "--access", "write", TERM="dumb")
    pty.until(b"> ")
    pty.type(ASK.encode() + b"\r")
    pty.until(QUESTION.encode())
    pty.type(b"a\r")
    pty.until(b"so it is")
    pty.until(b"\r\n> ")
    assert (shell.folder / "made").exists()
    pty.type(b"\x03")
    pty.until(b"press ctrl-c again to leave")
    pty.type(b"\x03")
    assert pty.end() == 0
    assert b"\x1b[?" not in pty.all


def test_commands(chat: Chat) -> None:
    pty = chat("chat", "script")
    say(pty, "/model other-1")
    pty.until(b"model other-1, from the next prompt on")
    say(pty, "/access write")
    pty.until(b"access write, from the next prompt on")
    say(pty, "[[echo:access]] [[echo:model]]")
    pty.until("· other-1 · ".encode())
    pty.until(b"write\r\n")
    say(pty, "/access everything")
    pty.until(b"/access needs an access")
    say(pty, "/frob")
    pty.until(b"there is no command /frob")
    say(pty, "//frob [[echo:prompt]]")
    pty.until(b"//frob [[echo:prompt]]\x1b")
    pty.until(b"/frob [[echo:prompt]]\r\n")
    say(pty, "/help")
    pty.until(b"/steer TEXT")


def test_history_is_private_and_without_secrets(chat: Chat, shell: Any) -> None:
    secret = "sk-test-0123456789abcdefghij"
    pty = chat("chat", "script", OPENAI_API_KEY=secret)
    say(pty, f"[[say:hi]] {secret}\\\rtwo")
    pty.until("✓ done".encode())
    leave(pty)
    path = Path(shell.home) / ".local/state/ostler/chat_history"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    text = path.read_text()
    assert "[[say:hi]]" in text and secret not in text
    again = chat("chat", "script")
    again.until_last_row(">")
    again.type(b"\x1b[A\x1b[A")
    again.until_last_row("  two")
    again.type(b"\x15\x12say:h")  # ctrl-r looks for it
    again.until(b"I-search backward")
    again.type(b"\r\r")
    again.until(b"hi\r\n")


def test_lines_of_a_pipe_are_prompts(shell: Any) -> None:
    ran = shell("chat", "script", stdin=b"[[say:one]]\n\n[[fail:it broke]]\n[[history]]\n")
    assert ran.returncode == 1
    assert [line for line in ran.stdout.splitlines() if line in ("one", "[[say:one]]", "[[fail:it broke]]")] == [
        "one",
        "[[say:one]]",
        "[[fail:it broke]]",
    ]


@pytest.mark.parametrize(
    ("args", "code", "complaint"),
    [
        (("nobody",), 2, "nobody"),
        (("script", "--session", "nope"), 2, "no session is called 'nope'"),
        (("script", "--session", "a", "--continue"), 2, "cannot be used together"),
        (("script", "--folder", "/nowhere"), 2, "no such folder"),
    ],
)
def test_what_cannot_begin_is_told(shell: Any, args: tuple[str, ...], code: int, complaint: str) -> None:
    ran = shell("chat", *args)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert complaint in ran.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_begins_ends_it_in_order(shell: Any, number: signal.Signals) -> None:
    """Another ostler writes just then: the session cannot be opened yet."""
    assert shell("run", "script", "hello").returncode == 0
    path = shell.home / ".local/state/ostler/ostler.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        chat = shell.start("chat", "script", stdin=subprocess.PIPE)
        files = Path(f"/proc/{chat.pid}/fd")
        wait_until(lambda: any(os.path.realpath(each) == str(path) for each in files.iterdir()))
        chat.send_signal(number)
    _, err = chat.communicate(timeout=60)
    assert (chat.returncode, b"Traceback" in err) == (128 + number, False)


def test_a_session_of_commands_is_no_conversation(shell: Any) -> None:
    shell("exec", "--name", "built", "--", "true")
    ran = shell("chat", "--session", "built")
    assert ran.returncode == 2
    assert "it has no agent to talk to" in ran.stderr


def test_steer_tells_the_running_turn_more(chat: Chat) -> None:
    pty = chat("chat", "script", "--name", "talk")
    say(pty, "[[say:begun]] [[hear]]")
    pty.until(b"begun\r\n")
    pty.type(b"/steer  and oats \r")
    pty.until(b"steered by you: and oats\r\n")
    pty.until(b"and oats\r\n")
    pty.until("✓ done".encode())
    say(pty, "/steer more")
    pty.until(b"no turn is running: send it as a prompt")
    leave(pty)


def test_what_the_agent_offers_is_listed_and_its_commands_are_sent(chat: Chat) -> None:
    pty = chat("chat", "script", "--name", "offers")
    say(pty, "/commands")
    pty.until(b"lists its commands with its first turn")
    say(pty, "/shout it")
    pty.until(b"there is no command /shout")  # nobody knows of it yet
    say(pty, "[[say:hello]]")
    pty.until("✓ done".encode())
    say(pty, "/model")
    pty.until(b"*  scripted\r\n")
    pty.until(b"   scripted-fast\r\n")
    say(pty, "/mode")
    pty.until(b"*  default  Does as it is told\r\n")
    pty.until(b"   plan     Only plans\r\n")
    say(pty, "/commands")
    pty.until(b"   shout  Says it aloud\r\n")
    say(pty, "/mode plan")
    pty.until(b"mode plan, from the next prompt on")
    say(pty, "[[echo:mode]]")
    pty.until(b"plan\r\n")
    pty.until("✓ done".encode())
    say(pty, "/shout [[echo:prompt]][[echo:command]]")
    pty.until(b"/shout [[echo:prompt]][[echo:command]]\x1b")
    pty.until(b"true\r\n")
    pty.until("✓ done".encode())
    say(pty, "//shout [[echo:command]]")
    pty.until(b"false\r\n")
    pty.until("✓ done".encode())
    say(pty, "/mode nonesuch")
    pty.until(b"from the next prompt on")
    say(pty, "[[say:never]]")
    pty.until(b"It has: default, plan")
    say(pty, "/access write")  # begins anew, with the mode of that access
    pty.until(b"access write")
    say(pty, "[[echo:mode]]")
    pty.until(b"default\r\n")
    leave(pty)
    again = chat("chat", "--session", "offers")
    say(again, "/commands")
    again.until(b"shout  Says it aloud")  # known from the journal


def test_tab_completes_commands_models_and_modes(chat: Chat) -> None:
    pty = chat("chat", "script")
    say(pty, "[[say:hello]]")
    pty.until("✓ done".encode())
    for keys, whole in (
        (b"/sho\t", "/shout"),
        (b"/comm\t", "/commands"),
        (b"/model scripted-\t", "/model scripted-fast"),
        (b"/mode p\t", "/mode plan"),
        (b"/access f\t", "/access full"),
    ):
        pty.until_last_row(">")
        pty.type(keys)
        pty.until_last_row(f"> {whole}")
        pty.type(b"\x15")


def test_a_mode_is_given_to_run(shell: Any) -> None:
    ran = shell("run", "script", "[[echo:mode]]", "--dialog", "--mode", "plan", "--quiet")
    assert (ran.returncode, ran.stdout) == (0, "plan\n")
    for args, said in (
        (("--mode", "plan"), "Use --dialog"),
        (("--dialog", "--mode", "yolo"), "It has: default, plan"),
        (("--dialog", "--mode", " "), "--mode is empty"),
    ):
        ran = shell("run", "script", "[[say:x]]", *args)
        assert (ran.returncode, ran.stdout) == (2, "") and said in ran.stderr


def test_conversations_of_an_acp_agent_are_imported(shell: Any) -> None:
    scripted = [sys.executable, "-P", "-m", "ostler.testing.agent", "--acp"]
    shell.toml(f'loose = ["mine"]\n[acp]\nmine = {json.dumps(scripted)}\n')
    ran = shell("run", "mine", "[[say:hi]]", "--access", "full", "--name", "first", env={"OSTLER_ONLY": ""})
    assert ran.returncode == 0, ran.stderr
    ran = shell("sessions", "--import", "mine", env={"OSTLER_ONLY": "", "OSTLER_HOME": str(shell.home / "other")})
    assert "imported 1 conversation of mine" in ran.stdout and "[[say:hi]]" in ran.stdout
