"""An ACP client for tests: `ostler acp` as a real process, every frame kept, and the published schema as a judge."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from prefork import start_ostler_here

Frame = dict[str, Any]


class Peer:
    """One connection. `frames` holds what the agent wrote, in order; `answer` what to say to its requests."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.frames: list[Frame] = []
        self.methods: dict[int, str] = {}  # our requests
        self.answer: Callable[[Frame], Any] = allow
        self.reads = asyncio.Event()  # cleared: this client reads no further
        self.reads.set()
        self._answers: dict[int, asyncio.Future[Frame]] = {}
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def call(self, method: str, **params: Any) -> Any:
        """The result. Raises Told for an error."""
        frame = await self.finish(self.begin(method, **params))
        if "error" in frame:
            raise Told(frame["error"])
        return frame["result"]

    def begin(self, method: str, **params: Any) -> int:
        number = len(self.methods) + 100
        self.methods[number] = method
        self._answers[number] = asyncio.get_running_loop().create_future()
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    async def finish(self, number: int) -> Frame:
        return await asyncio.wait_for(self._answers[number], 60)

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, frame: Any) -> None:
        self.raw(json.dumps(frame).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    async def until(self, fits: Callable[[Frame], Any], after: int = 0) -> Frame:
        """The first frame that fits, of those after the first `after`."""
        async with asyncio.timeout(60):
            while True:
                self._news.clear()
                for frame in self.frames[after:]:
                    if fits(frame):
                        return frame
                await self._news.wait()

    def updates(self, session: str = "") -> list[Frame]:
        told = [f["params"] for f in self.frames if f.get("method") == "session/update"]
        return [params["update"] for params in told if session in ("", params["sessionId"])]

    def said(self, kind: str = "agent_message_chunk") -> str:
        return "".join(u["content"]["text"] for u in self.updates() if u["sessionUpdate"] == kind)

    async def close(self) -> int:
        """Closes stdin and waits for the end of the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        await asyncio.wait_for(self._reading, 60)
        return await asyncio.wait_for(self.process.wait(), 60)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            await self.reads.wait()
            frame = json.loads(line)
            assert isinstance(frame, dict) and frame["jsonrpc"] == "2.0", line
            self.frames.append(frame)
            self._hear(frame)
            self._news.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the agent is gone"))

    def _hear(self, frame: Frame) -> None:
        if "method" in frame and "id" in frame:
            answer = self.answer(frame)
            if answer is not None:
                self.send({"jsonrpc": "2.0", "id": frame["id"], **answer})
        elif "id" in frame and frame["id"] in self._answers:
            self._answers[frame["id"]].set_result(frame)


class Told(Exception):
    """An error of the agent."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error)
        self.code, self.message, self.data = error["code"], error["message"], error.get("data", {})


def allow(frame: Frame) -> Frame:
    return choose(frame, "allow_once")


def choose(frame: Frame, kind: str) -> Frame:
    """Answers a request for permission by the kind of an option."""
    option = next(option["optionId"] for option in frame["params"]["options"] if option["kind"] == kind)
    return {"result": {"outcome": {"outcome": "selected", "optionId": option}}}


@asynccontextmanager
async def peer_of(
    folder: Path, *args: str, initialize: Frame | None = None, limit: int = 1 << 26, **env: str
) -> AsyncIterator[Peer]:
    """`ostler acp …` with a HOME beside the folder, served by the scripted agent unless `env` says otherwise."""
    process = await start_ostler_here(
        ["acp", *(args or ("claude",))],
        cwd=folder,
        env=environ_of(folder) | env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=limit,
    )
    peer = Peer(process)
    try:
        if initialize is not None:
            await peer.call("initialize", **initialize)
        yield peer
        if process.returncode is None:
            assert await peer.close() == 0
    finally:
        peer._reading.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()


def environ_of(folder: Path) -> dict[str, str]:
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    return {
        "HOME": str(home),
        "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "OSTLER_ONLY": "script",
        "OSTLER_SCRIPT_SPEED": "0",
    }


class Schema:
    """The published JSON schema, asked for each frame by its method: the whole one lets extensions be anything."""

    def __init__(self, path: Path) -> None:
        self._whole = json.loads(path.read_text())
        self._names: dict[tuple[str, str], str] = {}
        for name, each in self._whole["$defs"].items():
            if "x-method" in each:
                role = next(r for r in ("Request", "Response", "Notification") if name.endswith(r))
                self._names[each["x-method"], role] = name

    def check(self, frames: list[Frame], methods: dict[Any, str]) -> int:
        """How many of an agent's frames were held to their own definition; `methods`: of the client's requests."""
        for frame in frames:
            if "method" in frame:
                role = "Request" if "id" in frame else "Notification"
                self._hold(frame["params"], self._names[frame["method"], role])
            elif "result" in frame:
                self._hold(frame["result"], self._names[methods[frame["id"]], "Response"])
            else:
                self._hold(frame["error"], "Error")
            assert set(frame) <= {"jsonrpc", "id", "method", "params", "result", "error"}, frame
        return len(frames)

    def _hold(self, value: Any, name: str) -> None:
        schema = {**self._whole["$defs"][name], "$defs": self._whole["$defs"]}
        errors = sorted(Draft202012Validator(schema).iter_errors(value), key=lambda error: -len(error.path))
        assert not errors, f"{name}: {errors[0].message} at {list(errors[0].path)} in {str(value)[:500]}"
