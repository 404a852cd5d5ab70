"""Headless turns as terminals: live, read-only, without an emulator unless watched, and still there afterwards."""

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ostler.errors import OstlerError
from ostler.terminal.lease import Author
from ostler.terminal.text import plain_text
from ostler.terminal.viewing import AnyTold, Gone, Hello, Refused, Shown, Type, Viewing, Want, read_told, said
from ostler.words import (
    Ended,
    Envelope,
    Exit,
    Notice,
    Started,
    TerminalRow,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
)
from ostler.work import Ostler
from ostler.work.turn_text import TurnText
from work.scripted import Stable, collect, until

ANNA = Author("Anna", "person", "anna:1")


async def seen(viewing: Viewing, wanted: str) -> list[AnyTold | tuple[int, bytes]]:
    """Reads until that has come; everything on the way."""
    told, text = [], b""
    async for frame in viewing.frames():
        told.append(read_told(frame))
        if isinstance(told[-1], Shown):
            text += told[-1].vt.encode()
        elif isinstance(told[-1], tuple):
            text += told[-1][1]
        if wanted in plain_text(text):
            return told
    raise AssertionError(f"{wanted!r} never came: {text!r}")


def of_turns(o: Ostler) -> list[TerminalRow]:
    return [row for row in o.terminals.list() if row.source == "turn"]


async def test_a_turn_is_watched_while_it_works(stable: Stable) -> None:
    go = stable.folder / "go"
    stable.script.plays([{"say": "first words"}, {"wait_for": str(go)}, {"say": "last words"}])
    async with stable.ostler() as o, stable.ostler() as other:
        session = await o.session("script", folder=str(stable.folder), access="write")
        turn = asyncio.create_task(collect(session, "go"))
        row = await until(lambda: of_turns(other) and of_turns(other)[0])
        assert (row.state, row.typing, row.session, row.name) == ("live", False, session.id, "turn 1")
        assert row.turn == other.store.turns(session.id)[0].id
        assert other.terminals.primary(session.id) == row
        viewers = [await each.terminals.view(row.id, ANNA, "type") for each in (o, other)]
        for viewer in viewers:
            await seen(viewer, "first words")
            viewer.hear(said(Want(action="take")))
            viewer.hear(said(Type(text="x")))
        go.touch()
        await turn
        for viewer in viewers:
            frames = [read_told(frame) async for frame in viewer.frames()]
            refused = [frame.problem.kind for frame in frames if isinstance(frame, Refused)]
            assert refused == ["unsupported", "unsupported"]
            assert isinstance(frames[-1], Gone) and frames[-1].exit == Exit(code=0)
            assert "last words" in plain_text(b"".join(f[1] for f in frames if isinstance(f, tuple)))
            await viewer.close()
        kinds = [type(event).__name__ for event in other.events(session.id)]
        assert not {"TerminalOpened", "TerminalClosed"} & set(kinds)


async def test_afterwards_it_reads_as_ostler_run_prints_it(stable: Stable) -> None:
    stable.script.plays(
        [
            {"say": "Some **bold** words and `code`.\n"},
            {"run": ["echo", "it works"]},
            {"say": "Done."},
        ]
    )
    process = stable.cli("run", "script", "go", "--access", "write")
    printed, _ = await asyncio.to_thread(process.communicate)
    async with stable.ostler() as o:
        (row,) = of_turns(o)
        assert (row.state, row.exit, row.cols, row.rows) == ("ended", Exit(code=0), 100, 30)
        assert row.size > 0 and Path(row.recording).stat().st_mode & 0o777 == 0o600
        assert timeless(await o.terminals.text(row.id)) == timeless(printed)
        snapshot = await o.terminals.snapshot(row.id)
        assert timeless("".join(snapshot.text)) == timeless(printed.replace("\n", ""))  # long lines are wrapped
        styled = "\n".join(snapshot.styled)
        assert "\x1b[" in styled and "bold" in styled
        frames = [read_told(f) async for f in (await o.terminals.view(row.id, ANNA, "view")).frames()]
        assert [type(frame) for frame in frames] == [Hello, Shown, Gone]
        assert "it works" in frames[1].vt
        with pytest.raises(OstlerError) as caught:
            await o.terminals.input(row.id, ANNA, Type(text="x"), take=True)
        assert caught.value.kind == "not_found"
        await o.terminals.release(row.id)
        assert of_turns(o) == [] and not Path(row.recording).exists()


def timeless(text: str) -> str:
    return re.sub(r"\d+\.\d s", "N s", text)


async def test_a_turn_that_nobody_watches_starts_no_emulator(stable: Stable) -> None:
    code = """
import asyncio, os, sys
from ostler.settings import load_settings
from ostler.work import Ostler
async def main():
    async with Ostler(load_settings(folder=".", environ=os.environ).settings, os.environ) as o:
        session = await o.session("script", folder=".")
        async for event in session.run("[[say:hello]]"):
            pass
        assert session.last.ok
        assert [row.source for row in o.store.terminals()] == ["turn"]
heavy = ("pyghostty", "ostler.terminal.screen", "ostler.terminal.live", "ostler.work.terminals", "rich", "litestar")
asyncio.run(main())
print([name for name in heavy if name in sys.modules])
"""
    env = {**stable.env, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, env=env, cwd=stable.folder, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert (out, process.returncode) == (b"[]\n", 0)


@pytest.mark.parametrize(
    ("prompt", "outcome", "exit"),
    [
        ("[[say:hi]]", "done", Exit(code=0)),
        ("[[fail:limited]]", "failed", Exit(code=1)),
        ("[[say:hi]] [[never_end]]", "cancelled", Exit(signal=2)),
        ("[[exit:3]]", "crashed", Exit(code=3)),
    ],
)
async def test_a_turn_of_a_dialog_ends_as_one_of_its_own_process(
    stable: Stable, prompt: str, outcome: str, exit: Exit
) -> None:
    """In a dialog the process goes on, and has no exit to tell of."""
    for transport in ("pipe", "dialog"):
        async with stable.ostler() as o:
            session = await o.session("script", folder=str(stable.folder))
            async for event in session.run(prompt, transport=transport):
                if "never_end" in prompt and isinstance(event, Text):
                    await o.cancel(session.id)
            assert session.last is not None and session.last.outcome == outcome
            (row,) = o.terminals.list(session.id)
            assert (row.source, row.state) == ("turn", "ended")
            if transport == "dialog":
                assert row.exit == exit
            elif outcome != "cancelled":  # which signal it took is the agent's own matter
                assert row.exit is not None and row.exit.code == exit.code


async def test_the_output_of_a_command_is_shown_as_it_is(stable: Stable) -> None:
    go = stable.folder / "go"
    script = f"printf 'half '; printf '\\033[31mred\\033[0m\\n' >&2; while [ ! -e {go} ]; do sleep 0.05; done; echo end"
    async with stable.ostler() as o:

        async def run() -> None:
            async for _ in o.exec(["sh", "-c", script], folder=str(stable.folder)):
                pass

        turn = asyncio.create_task(run())
        row = await until(lambda: of_turns(o) and of_turns(o)[0])
        viewer = await o.terminals.view(row.id, ANNA, "view")
        await seen(viewer, "red")
        go.touch()
        await turn
        await viewer.close()
        assert o.last_exec.ok
        text = await o.terminals.text(row.id)
        assert sorted(text.replace("\n", " ").split()) == ["end", "half", "red"]
        screen = await o.terminals.snapshot(row.id)
        assert any("\x1b[" in line and "red" in line for line in screen.styled)
        assert all(not line.startswith(" " * 5) for line in screen.text)  # every line begins at the left


async def test_a_command_that_fails_and_its_secrets(stable: Stable) -> None:
    secret = "sk-hidden-0123456789abcdef"
    async with stable.ostler(MY_API_KEY=secret) as o:
        async for _ in o.exec(["sh", "-c", "printf $MY_API_KEY; exit 4"], folder=str(stable.folder)):
            pass
        (row,) = of_turns(o)
        assert row.exit == Exit(code=4)
        assert await o.terminals.text(row.id) == "*" * len(secret)


async def test_turns_do_not_count_among_the_terminals_of_a_session(stable: Stable) -> None:
    stable.script.plays([{"say": "here"}, {"never_end": True}])
    async with stable.ostler(OSTLER_TERMINALS="1") as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = asyncio.create_task(collect(session, "go"))
        row = await until(lambda: of_turns(o) and of_turns(o)[0])
        await o.terminals.open(session.id, ["cat"])
        for wrong in (o.terminals.kill(row.id), o.terminals.release(row.id)):
            with pytest.raises(OstlerError) as caught:
                await wrong
            assert caught.value.kind == "unsupported"
        await o.terminals.close_all(session.id)
        assert [each.id for each in o.terminals.list(live=True)] == [row.id]
        await o.cancel(session.id)
        await turn
        assert o.terminals.get(row.id).state == "ended"
        assert "cancelled" in await o.terminals.text(row.id)


async def test_after_kill_9_its_last_words_are_still_shown(stable: Stable) -> None:
    stable.script.plays([{"say": "words before the end\n"}, {"never_end": True}])
    process = stable.cli("run", "script", "go", "--name", "doomed")
    async with stable.ostler() as o:
        row = await until(lambda: of_turns(o) and of_turns(o)[0])
        viewer = await o.terminals.view(row.id, ANNA, "view")
        await seen(viewer, "words before the end")
        await viewer.close()
        process.kill()
        await asyncio.to_thread(process.communicate)
        assert o.terminals.get(row.id).state == "ended"
    async with stable.ostler() as o:
        assert o.store.terminal(row.id).state == "ended"
        assert "words before the end" in "\n".join((await o.terminals.snapshot(row.id)).text)


async def test_a_recording_that_cannot_be_made_costs_no_turn(stable: Stable) -> None:
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        folder = stable.state / "sessions" / session.id
        folder.mkdir(parents=True, mode=0o700)
        folder.parent.chmod(0o700)
        (folder / "terminals").write_text("in the way")
        await collect(session, "[[say:hello]]")
        assert session.last.ok
        (row,) = of_turns(o)
        assert (row.recording, row.state) == ("", "ended")
        assert set((await o.terminals.snapshot(row.id)).text) == {""}


# -- events as bytes --------------------------------------------------------------------------------


def told(*events: Any) -> bytes:
    text = TurnText(access="read")
    return b"".join(text.tell(event) for event in events)


def test_deltas_are_sent_as_they_come_and_nothing_twice() -> None:
    text = TurnText()
    assert text.tell(Started(agent="script")).endswith(b"\r\n")
    assert text.tell(TextDelta(text="Hel")) == b"\r\nHel"
    assert text.tell(TextDelta(text="lo ")) == b"lo "
    assert text.tell(TextDelta(text="you\nand")) == b"you\r\nand"
    assert text.tell(ThoughtDelta(text="hm")) == b""
    assert text.tell(Text(text="Hello you\nand all")) == b" all\r\n"
    assert text.tell(TextDelta(text="", id="2")) == b""
    assert text.tell(TextDelta(text="\n next", id="2")) == b"\r\n next"


def test_a_line_that_never_ends_is_broken_and_nothing_of_it_lost() -> None:
    """Else each piece would cost the whole line so far: a hundred thousand of them took minutes."""
    pieces = [f"{number}\x07," for number in range(5_000)]
    text = TurnText()
    sent = b"".join(text.tell(TextDelta(text=piece)) for piece in pieces).decode()
    assert sent.replace("\r\n", "") == "".join(pieces).replace("\x07", "\\x07")
    assert 2 < sent.count("\r\n") < 20
    assert text.tell(Text(text="".join(pieces) + "end")) == b"end\r\n"


def test_a_notice_in_the_middle_of_a_line_ends_it() -> None:
    events = (TextDelta(text="half a"), Notice(text="careful"), TextDelta(text=" line"), Ended(outcome="done"))
    assert plain_text(told(*events)) == "half a\n\nnote: careful\n\n line\n"


def test_marks_colour_what_follows_even_over_several_deltas() -> None:
    assert told(TextDelta(text="a `co"), TextDelta(text="de` b **bo"), TextDelta(text="ld** c\n")) == (
        b"a \x1b[36m`code`\x1b[0m b \x1b[1m**bold**\x1b[0m c\r\n"
    )
    assert told(TextDelta(text="# Tit"), TextDelta(text="le\nplain")) == b"\x1b[1m# Title\x1b[0m\r\nplain"
    assert told(TextDelta(text="open `for ever"), TextDelta(text="\nnext")) == b"open \x1b[36m`for ever\x1b[0m\r\nnext"
    assert told(TextDelta(text="2 * 3 *"), TextDelta(text=" 4\n")) == b"2 * 3 * 4\r\n"


def test_blocks_of_code_keep_their_colour_however_they_come() -> None:
    text = "```py\nx = `1`\n```\nafter `it`\n"
    code, fence, mark, off = b"\x1b[36m", b"\x1b[2m```", b"\x1b[36m`it`", b"\x1b[0m"
    whole = told(TextDelta(text=text))
    lines = [fence + b"py" + off, code + b"x = `1`" + off, fence + off, b"after " + mark + off, b""]
    assert whole.split(b"\r\n") == lines
    for cut in range(1, len(text)):
        if cut in (1, 2, 15, 16):
            continue  # within the fence itself it is not known yet
        assert told(TextDelta(text=text[:cut]), TextDelta(text=text[cut:])) == whole, cut


def test_what_agents_say_cannot_act_on_the_terminal() -> None:
    evil = "\x1b]0;title\x07\x1b[2J\x9b31m"
    shown = told(
        TextDelta(text=evil),
        TextDelta(text=evil + "\n"),
        Thought(text=evil),
        ToolStarted(id="1", name=evil, title=evil),
        ToolEnded(id="1", ok=False, output=evil),
        Notice(text=evil),
    )
    assert set(re.findall(rb"\x1b(?!\[[0-9;]*m)", shown)) == set() and b"\x07" not in shown and b"\xc2\x9b" not in shown
    assert b"\\x1b]0;title" in shown


def test_the_end_says_how_it_went() -> None:
    envelope = Envelope(
        status="ok",
        outcome="done",
        summary="s",
        text="t",
        turn="k3-1",
        session="k3",
        agent="script",
        served_by="script",
        started_at=1.0,
        duration_ms=1200,
    )
    text = TurnText()
    text.tell(TextDelta(text="unfinished"))
    assert plain_text(text.end(envelope)) == '\n\n✓ done · 1.2 s\ncontinue: ostler run --session k3 "…"\n'
    failed = replace(envelope, outcome="timed_out", status="error")
    assert b"\x1b[31m" in TurnText().end(failed)
