"""ACP updates a second, and memory with a slow reader: ostler's client beside the Python SDK's, in one run.

Each figure is taken in a process of its own. Updates come through a pipe from a program that has them ready.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COUNT = int(os.environ.get("UPDATES", "200000"))
SLOW = 100_000  # updates of an agent whose reader takes its time
PAUSE = 0.02  # seconds, after each 500 updates
WORDS = ("The", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog.")


def frames(count: int, session: str = "S") -> Iterator[bytes]:
    """What a talkative agent says: words, and a tool now and then."""
    for number in range(count):
        if number % 50 == 49:
            call = {"toolCallId": f"c{number // 100}", "title": "ls -l", "kind": "execute"}
            status = "in_progress" if number % 100 == 49 else "completed"
            update: dict[str, Any] = {"sessionUpdate": "tool_call_update", "status": status, **call}
            if status == "in_progress":
                update |= {"sessionUpdate": "tool_call", "rawInput": {"command": "ls -l"}}
        else:
            content = {"type": "text", "text": WORDS[number % len(WORDS)] + " "}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
        params = {"sessionId": session, "update": update}
        yield json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode() + b"\n"


# -- the two clients, fast ------------------------------------------------------------------------------


async def ours(path: str) -> float:
    """Bytes → lines → records → the dialog's steps → events."""
    from ostler.agents import decode
    from ostler.agents.acp.dialog import AcpDialog
    from ostler.agents.acp.protocol import Acp
    from ostler.agents.dialog import Emit
    from ostler.model import Host, Turn
    from ostler.process import LineFramer, chunks

    turn = Turn(id="t", session="s", agent="mine", prompt="x", folder="/", access="full")
    dialog = AcpDialog(turn, Host(executable="x", version="", help="", private="/", home="/"), Acp())
    dialog.open()
    dialog.read({"id": 1, "result": {"protocolVersion": 1}})
    dialog.read({"id": 2, "result": {"sessionId": "S"}})
    dialog.prompt(turn)
    reads, writes = os.pipe()
    agent = await asyncio.create_subprocess_exec("cat", path, stdout=writes)
    os.close(writes)
    os.set_blocking(reads, False)
    framer, heard = LineFramer(), 0
    began = time.perf_counter()
    async for chunk in chunks(reads):
        for line in framer.feed(chunk):
            for step in dialog.read(decode(line.data)):
                if isinstance(step, Emit):
                    heard += len(step.events)
    spent = time.perf_counter() - began
    assert heard >= COUNT and await agent.wait() == 0
    return COUNT / spent


async def sdk(path: str) -> float:
    import acp

    heard, done = 0, asyncio.Event()

    class Counting:
        async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
            nonlocal heard
            heard += 1
            if heard == COUNT:
                done.set()

        def on_connect(self, conn: Any) -> None: ...

    agent = await asyncio.create_subprocess_exec(
        "cat", path, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24
    )
    began = time.perf_counter()
    acp.connect_to_agent(Counting(), agent.stdin, agent.stdout)
    await done.wait()
    return COUNT / (time.perf_counter() - began)


# -- slow readers ---------------------------------------------------------------------------------------

FLOOD = """
import json, sys
for line in sys.stdin:
    frame = json.loads(line)
    answer = lambda **result: print(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": result}), flush=True)
    match frame.get("method"):
        case "initialize": answer(protocolVersion=1)
        case "session/new": answer(sessionId="S")
        case "session/prompt":
            with open(sys.argv[1]) as file:
                for each in file: sys.stdout.write(each)
            answer(stopReason="end_turn")
"""


Memory = tuple[float, float, float]  # MB before the prompt, after the turn, and at most


def resident(what: str = "VmRSS") -> float:
    """MB of this process. Not getrusage: its peak is that of whoever started us, if that was higher."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(what))


async def ours_slow(path: str) -> Memory:
    """A whole ostler, journal and all, while who follows the journal sleeps every now and then."""
    return (await whole(path, PAUSE))[1]


async def ours_whole(path: str) -> float:
    return (await whole(path, 0.0))[0]


async def whole(path: str, pause: float) -> tuple[float, Memory]:
    """Updates a second and memory of a turn in a running ostler: process, journal, store, reader."""
    from ostler.settings import load_settings
    from ostler.work import Ostler

    with tempfile.TemporaryDirectory() as base:
        folder = f"{base}/project"  # beside the state folder: what changes in it is no part of the diff
        os.mkdir(folder)
        environ = {"HOME": base, "PATH": os.environ["PATH"], "OSTLER_HOME": f"{base}/state"}
        flags = {"acp": {"mine": [sys.executable, "-c", FLOOD, path]}, "loose": ["mine"]}
        settings = load_settings(folder=folder, environ=environ, flags=flags).settings
        async with Ostler(settings, environ) as o:
            live = await o.session("mine", folder=folder, access="full")
            before, heard, began = resident(), 0, time.perf_counter()
            async for _ in live.run("go"):
                heard += 1
                if pause and heard % 500 == 0:
                    await asyncio.sleep(pause)
            assert live.last is not None and live.last.ok and heard >= SLOW
            return SLOW / (time.perf_counter() - began), (before, resident(), resident("VmHWM"))


async def sdk_slow(path: str) -> Memory:
    import acp

    heard, in_order = 0, asyncio.Lock()

    class Sleepy:
        """One update after the other, with the same pauses."""

        async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
            nonlocal heard
            async with in_order:
                heard += 1
                if heard % 500 == 0:
                    await asyncio.sleep(PAUSE)

        def on_connect(self, conn: Any) -> None: ...

    async with acp.spawn_agent_process(Sleepy(), sys.executable, "-c", FLOOD, path) as (agent, _):
        await agent.initialize(protocol_version=1)
        new = await agent.new_session(cwd="/", mcp_servers=[])
        before = resident()
        await agent.prompt(session_id=new.session_id, prompt=[acp.text_block("go")])
        return before, resident(), resident("VmHWM")


# -- the table ------------------------------------------------------------------------------------------


MEASURED = {"ours": ours, "sdk": sdk, "ours_whole": ours_whole, "ours_slow": ours_slow, "sdk_slow": sdk_slow}


def main() -> None:
    with tempfile.TemporaryDirectory() as base:
        for name, count in (("fast", COUNT), ("slow", SLOW)):
            (Path(base) / name).write_bytes(b"".join(frames(count)))
        figures = {what: measured(what, f"{base}/{'fast' if what in ('ours', 'sdk') else 'slow'}") for what in MEASURED}
    print(f"updates a second      ostler {figures['ours']:>24}   Python SDK {figures['sdk']:>24}")
    print(f"in a whole turn       ostler {figures['ours_whole']:>24}")
    print(f"slow reader, MB       ostler {figures['ours_slow']:>24}   Python SDK {figures['sdk_slow']:>24}")
    print(f"(MB: before the prompt → after the turn, peak; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)")


def measured(what: str, path: str) -> str:
    # -P: this file is called like the SDK.
    ran = subprocess.run([sys.executable, "-P", __file__, what, path], capture_output=True, text=True, check=False)
    if ran.returncode:
        return f"failed: {ran.stderr.strip().splitlines()[-1]}"
    match json.loads(ran.stdout):
        case [before, after, most]:
            return f"{before:.0f} → {after:.0f}, peak {most:.0f}"
        case figure:
            return f"{figure:,.0f}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(asyncio.run(MEASURED[sys.argv[1]](sys.argv[2]))))
    else:
        main()
