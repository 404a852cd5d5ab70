"""Headless turns as terminals: live, read-only, without an emulator unless watched, and still there afterwards."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.model import (
    Exit,
    TerminalRow,
    Text,
)
from ostler.render.turn_text import TurnText
from ostler.store.writer import Writer
from ostler.terminal.cast import read_cast
from ostler.terminal.lease import Author
from ostler.terminal.text import plain_text
from ostler.terminal.viewer_protocol import (
    AnyTerminalMessage,
    Gone,
    Hello,
    RefusedMessage,
    SnapshotMessage,
    Type,
    Viewing,
    Want,
    encode_message,
    read_terminal_message,
)
from ostler.work import Ostler
from waiting import until
from work.scripted import Stable, collect

ANNA = Author("Anna", "person", "anna:1")


async def seen(viewing: Viewing, wanted: str) -> list[AnyTerminalMessage | tuple[int, bytes]]:
    """Reads until that has come; everything on the way."""
    told, text = [], b""
    async for frame in viewing.frames():
        told.append(read_terminal_message(frame))
        if isinstance(told[-1], SnapshotMessage):
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
            viewer.receive(encode_message(Want(action="take")))
            viewer.receive(encode_message(Type(text="x")))
        go.touch()
        await turn
        for viewer in viewers:
            frames = [read_terminal_message(frame) async for frame in viewer.frames()]
            refused = [frame.problem.kind for frame in frames if isinstance(frame, RefusedMessage)]
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
        assert not Path(row.recording).exists()  # nobody wanted it yet
        assert timeless(await o.terminals.text(row.id)) == timeless(printed)
        assert Path(row.recording).stat().st_mode & 0o777 == 0o600
        snapshot = await o.terminals.snapshot(row.id)
        # Long lines are wrapped, and of a row that ends in a space none is left.
        assert solid(timeless("".join(snapshot.text))) == solid(timeless(printed))
        styled = "\n".join(snapshot.styled)
        assert "\x1b[" in styled and "bold" in styled
        frames = [read_terminal_message(f) async for f in (await o.terminals.view(row.id, ANNA, "view")).frames()]
        assert [type(frame) for frame in frames] == [Hello, SnapshotMessage, Gone]
        assert "it works" in frames[1].vt
        with pytest.raises(OstlerError) as caught:
            await o.terminals.input(row.id, ANNA, Type(text="x"), take=True)
        assert caught.value.kind == "not_found"
        await o.terminals.release(row.id)
        assert of_turns(o) == [] and not Path(row.recording).exists()


async def test_a_warm_turn_is_flushed_to_disk_when_it_begins_and_when_it_ends(
    stable: Stable, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[bool] = []
    begin = Writer._begin

    def counted(self: Writer, full: bool) -> None:
        flushed.append(full)
        begin(self, full)

    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await session.run("[[say:one]]", transport="dialog")
        monkeypatch.setattr(Writer, "_begin", counted)
        envelope = await session.run("[[say:two]]", transport="dialog")
        assert envelope.ok
        assert flushed.count(True) == 2  # its row before anything is said to the agent, and its end
        assert [row.state for row in of_turns(o)] == ["ended", "ended"]  # which is that of its terminal too
        assert all(Path(path).exists() for path in envelope.artifacts.values())


async def output(viewing: Viewing) -> bytes:
    """All that a viewer is sent who has been there from the beginning."""
    frames = [read_terminal_message(frame) async for frame in viewing.frames()]
    assert not any(isinstance(frame, SnapshotMessage) for frame in frames)
    return b"".join(frame[1] for frame in frames if isinstance(frame, tuple))


async def test_the_recording_is_what_a_viewer_saw_and_goes_as_far_as_the_turn(stable: Stable) -> None:
    go = stable.folder / "go"
    stable.script.plays(
        [{"say": "**first** words\n"}, {"wait_for": str(go)}, {"run": ["echo", "it works"]}, {"say": "end"}]
    )
    async with stable.ostler() as o, stable.ostler() as other:
        session = await o.session("script", folder=str(stable.folder), access="write")
        turn = asyncio.create_task(collect(session, "go"))
        row = await until(lambda: of_turns(other) and of_turns(other)[0])
        viewer = await o.terminals.view(row.id, ANNA, "view", offset=0)
        watched = asyncio.create_task(output(viewer))
        await until(lambda: "first" in o.terminals.live(row.id).text(None, None))
        part = await other.terminals.recording(row.id)  # of a turn that another process runs
        begun = recorded(part)
        assert "first" in begun and "it works" not in begun
        assert part != row.recording and not Path(row.recording).exists()
        go.touch()
        await turn
        whole = await other.terminals.recording(row.id)
        assert whole == row.recording and not Path(part).exists()
        assert recorded(whole).encode() == await watched
        assert recorded(whole).startswith(begun) and "it works" in recorded(whole)
        times = [event.at for event in read_cast(whole).events()]
        assert times == sorted(times) and times[0] >= 0
        await o.terminals.release(row.id)
        assert list(Path(whole).parent.iterdir()) == []


def recorded(path: str) -> str:
    return "".join(event.data for event in read_cast(path).events() if event.kind == "o")


async def test_who_looks_late_at_a_long_turn_sees_all_of_it(stable: Stable, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    feed = TurnText.feed
    monkeypatch.setattr(TurnText, "feed", lambda self, event: (drawn.append(event), feed(self, event))[1])
    stable.script.plays([*({"say": f"line {n}\n"} for n in range(300)), {"say": "the last"}, {"never_end": True}])
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        turn = asyncio.create_task(collect(session, "go"))
        await until(lambda: any(isinstance(e, Text) and e.text == "the last" for e in o.events(session.id)))
        (row,) = of_turns(o)
        await until(lambda: len(drawn) > 256)  # before anybody looks: nobody has to wait for all of a long one
        lines = [line for line in (await o.terminals.text(row.id)).splitlines() if line][1:]
        assert lines == [*(f"line {n}" for n in range(300)), "the last"]
        await o.cancel(session.id)
        await turn


def timeless(text: str) -> str:
    return re.sub(r"\d+\.\d s", "N s", text)


def solid(text: str) -> str:
    return "".join(text.split())


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
heavy = ("pyghostty", "ostler.terminal.screen.screens", "ostler.terminal.live", "ostler.work.terminals.terminals",
         "rich", "uvicorn")
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
            assert row.exit == exit


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
        assert row.state == "ended"
        assert set((await o.terminals.snapshot(row.id)).text) == {""}
        with pytest.raises(OstlerError) as caught:
            await o.terminals.recording(row.id)
        assert caught.value.kind == "store"
        (folder / "terminals").unlink()
        assert "hello" in await o.terminals.text(row.id)
