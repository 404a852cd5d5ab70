"""What a driver adds to a warm turn of a dialog: ostler beside claude-agent-sdk, with the same stand-in.

The stand-in speaks claude's stream-json, answers at once, and stamps when it got a prompt and when it wrote the
result: all else of a turn is the driver. Both drive a process of it from this one, one turn each in alternation.
ostler keeps a journal, artifacts and an envelope of each turn, and flushes its beginning and end to disk; the SDK
keeps nothing. SDK_FOLDER is where the SDK is looked for, and put by pip if it is not there. BESIDE may name the
interpreter of another ostler, whose turns are taken in the same alternation.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from disk import disk_line

from ostler.settings import load_settings
from ostler.work import LiveSession, Ostler

TURNS = int(os.environ.get("TURNS", "300"))
WARM_UP = 20
BESIDE = os.environ.get("BESIDE", "")
SDK = "claude-agent-sdk"
SDK_FOLDER = os.environ.get("SDK_FOLDER") or os.path.expanduser("~/.cache/ostler/claude-agent-sdk")

STAND_IN = """\
#!{python} -IS
import json, sys, time

VERSION = "2.1.325"
FLAGS = '''--print --output-format --input-format --verbose --include-partial-messages --permission-mode --tools
--allowedTools --disallowedTools --strict-mcp-config --settings --setting-sources --session-id --resume
--permission-prompt-tool'''
if "--help" in sys.argv or "--version" in sys.argv or "-v" in sys.argv:
    print(FLAGS if "--help" in sys.argv else VERSION)
    sys.exit()
named = [flag.partition("=")[2] for flag in sys.argv if flag.startswith(("--session-id=", "--resume="))]
same = {{"session_id": named[0] if named else "00000000-0000-4000-8000-000000000000"}}
init = {{"type": "system", "subtype": "init", "model": "m", "cwd": "/", "tools": [], "claude_code_version": VERSION}}
message = {{"id": "msg", "role": "assistant", "model": "m", "content": [{{"type": "text", "text": "STAMPS"}}]}}
result = {{"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "result": "STAMPS"}}
spent = {{"duration_ms": 1, "duration_api_ms": 1, "usage": {{"input_tokens": 1, "output_tokens": 1}}}}
records = ({{**init, **same}}, {{"type": "assistant", "message": message, **same}}, {{**result, **spent, **same}})
answer = "".join(json.dumps(record) + "\\n" for record in records)

for line in sys.stdin:
    got = time.monotonic()
    record = json.loads(line)
    if record["type"] == "control_request":
        response = {{"subtype": "success", "request_id": record["request_id"], "response": {{}}}}
        sys.stdout.write(json.dumps({{"type": "control_response", "response": response}}) + "\\n")
    elif record["type"] == "user":
        sys.stdout.write(answer.replace("STAMPS", f"{{got!r}} {{time.monotonic()!r}}"))
    sys.stdout.flush()
"""

Turn = Callable[[], Awaitable[str]]  # one turn, and what the stand-in said


# -- the drivers ----------------------------------------------------------------------------------------


def by_ostler(live: LiveSession) -> Turn:
    async def turn() -> str:
        async for _ in live.run("go", transport="dialog"):
            pass
        assert live.last is not None and live.last.ok, live.last
        return live.last.text

    return turn


def by_sdk(client: Any) -> Turn:
    async def turn() -> str:
        await client.query("go")
        said = ""
        async for message in client.receive_response():
            said = getattr(message, "result", said)
        return said

    return turn


def sdk() -> Any:
    """The SDK as a module. Its sdist: the wheel has a whole CLI in it. Raises ImportError where it cannot be had."""
    if not os.path.isdir(SDK_FOLDER):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        got = subprocess.run(
            [*pip, "--no-binary", SDK, "--target", SDK_FOLDER, SDK], capture_output=True, text=True, check=False
        )
        if got.returncode:
            raise ImportError((got.stderr.strip() or "pip failed").splitlines()[-1])
    sys.path.append(SDK_FOLDER)  # last: what ostler runs with stays as it is
    import claude_agent_sdk

    return claude_agent_sdk


# -- measuring ------------------------------------------------------------------------------------------


class Row:
    """What one driver took beside the stand-in, in ms: until it had the prompt, and after it had answered."""

    def __init__(self, name: str, turn: Turn) -> None:
        self.name, self.turn = name, turn
        self.there: list[float] = []
        self.back: list[float] = []
        self.cpu: list[float] = []  # of this process, all its threads: it varies less on a busy machine

    async def take(self, keep: bool) -> None:
        cpu, began = time.process_time(), time.monotonic()
        said = await self.turn()
        ended, cpu = time.monotonic(), time.process_time() - cpu
        got, wrote = map(float, said.split())
        if keep:
            self.there.append((got - began) * 1000)
            self.back.append((ended - wrote) * 1000)
            self.cpu.append(cpu * 1000)

    @property
    def whole(self) -> list[float]:
        return [a + b for a, b in zip(self.there, self.back, strict=True)]


class OtherRow(Row):
    """The same of another ostler: its process takes a turn for each line that it reads."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, access: str) -> None:
        super().__init__(name, self._turn)
        self.process, self.access = process, access

    async def _turn(self) -> str:
        raise NotImplementedError("it is taken elsewhere")

    async def take(self, keep: bool) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{self.access}\n".encode())
        took = json.loads(await self.process.stdout.readline())
        if keep:
            for values, value in zip((self.there, self.back, self.cpu), took, strict=True):
                values.append(value)


async def be_the_other() -> None:
    """Takes a turn for each access that is read from stdin, and prints what it took."""
    async with AsyncExitStack() as stack:
        rows = await ostler_rows(stack, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        while access := (await asyncio.to_thread(sys.stdin.readline)).strip():
            row = rows[access]
            await row.take(keep=True)
            print(json.dumps([values[-1] for values in (row.there, row.back, row.cpu)]), flush=True)


async def other_rows(stack: AsyncExitStack) -> list[Row]:
    if not BESIDE:
        return []
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(BESIDE, __file__, "other", stdin=pipe, stdout=pipe)
    stack.push_async_callback(process.wait)
    assert process.stdin is not None
    stack.callback(process.stdin.close)
    return [OtherRow(f"the other ostler, access {access}", process, access) for access in ("read", "write")]


def at(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def show(rows: list[Row], missing: str, disk: str) -> None:
    beside = at(rows[-1].whole, 50) if not missing else None  # the SDK is the last one
    heads = ("p50", "p95", "best", "there", "back", "CPU", "best", "ratio")
    print(f"{f'a warm turn, ms over the stand-in, {TURNS} turns each':50}", *(f"{head:>7}" for head in heads))
    for row in rows:
        p50 = at(row.whole, 50)
        ways = (at(row.there, 50), at(row.back, 50))
        figures = (p50, at(row.whole, 95), min(row.whole), *ways, at(row.cpu, 50), min(row.cpu))
        ratio = f"{p50 / beside:7.1f}" if beside else f"{'–':>7}"
        print(f"{row.name:50}", *(f"{figure:7.2f}" for figure in figures), ratio)
    tenth = max(TURNS // 10, 2)
    first, last = (statistics.median(part) for part in (rows[0].whole[:tenth], rows[0].whole[-tenth:]))
    print(f"ostler's first {tenth} turns {first:.2f}, its last {tenth} {last:.2f}: a session that grows")
    print(f"ostler: journal, artifacts, envelope; two flushes a turn; {disk}")
    print(f"{SDK}: {missing or 'keeps nothing'}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


async def ostler_rows(stack: AsyncExitStack, base: Path) -> dict[str, Row]:
    """By access."""
    folder = base / "project"
    folder.mkdir()
    stand_in = base / "claude"
    stand_in.write_text(STAND_IN.format(python=sys.executable))
    stand_in.chmod(0o755)
    env = {"HOME": str(base), "PATH": f"{base}:{os.environ['PATH']}", "OSTLER_HOME": str(base / "state")}
    settings = load_settings(folder=str(folder), environ=env).settings
    o = await stack.enter_async_context(Ostler(settings, env))
    rows = {}
    for access, what in (("read", ""), ("write", ", with a diff of the folder")):
        live = await o.session("claude", folder=str(folder), access=access)
        rows[access] = Row(f"ostler, access {access}{what}", by_ostler(live))
    return rows


async def main() -> None:
    async with AsyncExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rows = [*(await ostler_rows(stack, base)).values(), *await other_rows(stack)]
        missing = ""
        try:
            module = sdk()
            options = module.ClaudeAgentOptions(cli_path=str(base / "claude"), cwd=str(base / "project"))
            client = await stack.enter_async_context(module.ClaudeSDKClient(options))
            rows.append(Row(f"{SDK} {module.__version__}", by_sdk(client)))
        except ImportError as error:
            missing = f"not here, and could not be installed ({error})"
        for number in range(WARM_UP + TURNS):
            for row in rows:
                await row.take(keep=number >= WARM_UP)
        show(rows, missing, disk_line(base))


if __name__ == "__main__":
    asyncio.run(be_the_other() if "other" in sys.argv else main())
