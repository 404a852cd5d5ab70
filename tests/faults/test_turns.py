"""A turn whose surroundings fail: floods, huge lines, a full disk, no descriptors, a locked store, a dead warden."""

import asyncio
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.model import Ended, Notice, Raw, Text
from ostler.process import tree
from ostler.settings import load_settings
from ostler.store import Store
from ostler.work import Ostler
from prefork import start_python
from waiting import PATIENCE, until
from work.scripted import Stable, collect


def fake_cli(stable: Stable, code: str) -> None:
    """Puts a program of our own in the place of the scripted agent's binary."""
    path = stable.home / "agent.py"
    path.write_text(
        f"import sys, os, json, time\nif '--help' in sys.argv or '--version' in sys.argv:\n"
        f"    print('1.0 --access --session-id --resume'); sys.exit()\n{code}\n"
    )
    config = stable.home / ".config" / "ostler"
    config.mkdir(parents=True, exist_ok=True)
    argv = json.dumps([sys.executable, str(path)])
    (config / "config.toml").write_text(f"[commands]\nscript = {argv}\n")


INIT = """
def put(record): print(json.dumps(record), flush=True)
put({"type": "init", "session": "s1"})
"""


async def test_a_line_of_a_hundred_megabytes_costs_little_memory_and_no_neighbour(stable: Stable) -> None:
    fake_cli(
        stable,
        INIT
        + """
sys.stdin.read()
for _ in range(100): sys.stdout.write("x" * 1_000_000)
sys.stdout.write("\\n")
put({"kind": "text", "text": "after"})
put({"type": "result", "ok": True, "text": "after"})
""",
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    envelope, events = await stable.turn()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert envelope.ok and envelope.text == "after"
    assert "line_cut" in [e.code for e in events if isinstance(e, Notice)]
    assert grown < 150 * 1024, f"{grown} KiB"


@pytest.mark.parametrize(
    "line",
    [
        b'{"type": "init"',
        b"\xff\xfe not utf-8",
        b'{"kind": "text", "text": "\\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"type": "result", "ok": 1e400}',
        b"123",
        b"null",
        b'"text"',
        b'{"kind": "text", "text": null}',
        b'{"kind": "no such kind"}',
        b'{"type": "result", "ok": "yes"}',
    ],
    ids=lambda line: line[:24].decode("ascii", "replace"),
)
async def test_no_line_can_break_a_turn(stable: Stable, line: bytes) -> None:
    fake_cli(
        stable,
        INIT
        + f"""
sys.stdin.read()
sys.stdout.buffer.write({line!r} + b"\\n")
put({{"kind": "text", "text": "after"}})
put({{"type": "result", "ok": True, "text": "after"}})
""",
    )
    envelope, events = await stable.turn()
    assert envelope.ok and envelope.text == "after"
    assert any(isinstance(e, Raw) for e in events) or any(isinstance(e, Text) and "\ufffd" in e.text for e in events)
    assert [type(e) for e in events].count(Ended) == 1


async def test_half_a_record_at_the_end_is_no_success(stable: Stable) -> None:
    fake_cli(
        stable,
        INIT
        + """
sys.stdin.read()
sys.stdout.write('{"type": "result", "ok": true, "te')
""",
    )
    envelope, events = await stable.turn()
    assert (envelope.outcome, envelope.status) == ("unproven", "error")
    assert any(isinstance(e, Raw) and "result" in e.line for e in events)


async def test_an_agent_that_never_reads_its_prompt(stable: Stable) -> None:
    fake_cli(
        stable,
        INIT
        + """
put({"kind": "text", "text": "I do not listen"})
put({"type": "result", "ok": True, "text": "I do not listen"})
""",
    )
    envelope, _ = await stable.turn("x" * 3_000_000)
    assert envelope.ok and envelope.text == "I do not listen"


async def test_a_megabyte_on_stderr_is_drained(stable: Stable) -> None:
    fake_cli(
        stable,
        INIT
        + """
sys.stdin.read()
for _ in range(2000): sys.stderr.write("warning " * 128 + "\\n")
put({"type": "result", "ok": True, "text": "fine"})
""",
    )
    envelope, _ = await stable.turn()
    assert envelope.ok
    assert Path(envelope.artifacts["stderr"]).stat().st_size > 1_000_000


async def test_output_that_is_still_in_the_pipe_when_the_agent_ends_is_not_lost(stable: Stable) -> None:
    """A machine under load, or a slow disk: long after the process is gone, what it wrote is still being read."""
    fake_cli(
        stable,
        INIT
        + """
sys.stdin.read()
for n in range(2000): print(json.dumps({"kind": "notice", "text": "x" * 400}))
put({"kind": "text", "text": "the end"})
put({"type": "result", "ok": True, "text": "the end"})
""",
    )
    async with stable.ostler() as o:
        append = o.store.append

        async def slowly(session, events):
            await asyncio.sleep(0.4)
            await append(session, events)

        o.store.append = slowly
        session = await o.session("script", folder=str(stable.folder))
        events = await collect(session, "go")
    assert session.last.ok and session.last.text == "the end"
    assert [e.seq for e in events] == list(range(1, len(events) + 1)) and len(events) > 2000


async def test_the_warden_killed_in_a_turn_ends_that_turn_and_no_other(stable: Stable) -> None:
    stable.script.plays(
        {"match": "long", "steps": [{"say": "here"}, {"never_end": True}]}, {"steps": [{"say": "fine"}]}
    )
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        task = asyncio.create_task(collect(session, "long"))
        await until(lambda: any(isinstance(e, Text) for e in o.events(session.id)))
        turn = o.store.turns(session.id)[0].id
        os.kill((await o.warden.get()).pid, signal.SIGKILL)
        await task
        assert (session.last.status, session.last.outcome) == ("error", "crashed")
        await until(lambda: tree.marked(turn) == [])
        again = await o.session("script", folder=str(stable.folder))
        await collect(again, "short")
        assert again.last.ok and again.last.text == "fine"


async def test_a_store_that_is_locked_is_a_typed_error_and_recovers(
    stable: Stable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "open", partial(Store.open, timeout=0.3))
    settings = load_settings(folder=str(stable.folder), environ=stable.env).settings
    async with Ostler(settings, stable.env) as o:
        session = await o.session("script", folder=str(stable.folder))
        lock = sqlite3.connect(stable.state / "ostler.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        with pytest.raises(OstlerError) as caught:
            await collect(session, "[[say:hi]]")
        assert caught.value.kind == "store"
        lock.execute("ROLLBACK")
        lock.close()
        await collect(session, "[[say:hi]]")
        assert session.last.ok


SMALL_DISK = """
import asyncio, os, resource, sys
from ostler.settings import load_settings
from ostler.work import Ostler

async def main():
    env = dict(os.environ)
    async with Ostler(load_settings(folder=".", environ=env).settings, env) as o:
        session = await o.session("script", folder=".")
        try:
            async for _ in session.run("[[flood:20000]] [[say:done]]"): pass
            print("ended", session.last.status, session.last.error.kind if session.last.error else None)
        except Exception as error:
            print("raised", getattr(error, "kind", repr(error)))
asyncio.run(main())
"""


def test_a_full_disk_is_a_typed_error_and_no_process_is_left(stable: Stable, mounted: Callable[[int], Path]) -> None:
    out, err = said_by(stable, SMALL_DISK, OSTLER_HOME=str(mounted(1) / "state"))
    assert out.split()[-1:] == ["store"], (out, err[-2000:])
    assert tree.identity(stable.script.launches[-1].pid) is None


def said_by(stable: Stable, code: str, **env: str) -> tuple[str, str]:
    """The output of a process that runs this, and its errors."""
    pipe = subprocess.PIPE
    environ = {**stable.env, **env}
    with start_python(code, env=environ, cwd=stable.folder, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    return out, err


FEW_DESCRIPTORS = """
import asyncio, json, os, resource
from ostler.settings import load_settings
from ostler.work import Ostler

async def main():
    env = dict(os.environ)
    async with Ostler(load_settings(folder=".", environ=env).settings, env) as o:
        resource.setrlimit(resource.RLIMIT_NOFILE, (90, 90))
        async def one(n):
            session = await o.session("script", folder=".")
            try:
                async for _ in session.run("[[say:hi]]"): pass
                return session.last.error.kind if session.last.error else "ok"
            except Exception as error:
                return getattr(error, "kind", repr(error))
        print(json.dumps(sorted(set(await asyncio.gather(*(one(n) for n in range(40)))))))
        print(await one(0))
asyncio.run(main())
"""


def test_too_few_descriptors_is_a_typed_error_and_passes(stable: Stable) -> None:
    out, err = said_by(stable, FEW_DESCRIPTORS)
    lines = out.splitlines()
    assert len(lines) == 2, err[-3000:]
    assert set(json.loads(lines[0])) <= {"ok", "too_many", "store"} and "ok" in lines[0]
    assert lines[1] == "ok"
