"""Frames over real pipes: order, garbage, bounds, both sides asking, and the end of either side."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ostler.acp import wire as wires
from ostler.acp.errors import AcpError
from ostler.acp.wire import AcpConnection
from ostler.errors import OstlerError
from ostler.process import LineFramer, chunks
from waiting import PATIENCE


class Served:
    """Answers `echo`, waits in `wait`, fails in `fail`; keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.go = asyncio.Event()
        self.left = False

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.told.append(method)
        if method == "wait":
            await self.go.wait()
        if method == "fail":
            raise KeyError("a bug")
        if method == "refuse":
            raise OstlerError("busy", "not now", "Later")
        return params

    async def answered(self, method: str, params: dict[str, Any], result: dict[str, Any]) -> None:
        self.told.append(("answered", method))

    async def notified(self, method: str, params: dict[str, Any]) -> None:
        self.told.append((method, params))

    async def cancel(self, method: str, params: dict[str, Any]) -> bool:
        self.told.append(("cancel", method))
        return bool(params.get("graceful"))

    async def leave(self) -> None:
        self.left = True
        self.go.set()


class Line:
    """Our end of both pipes, and the wire on the other."""

    def __init__(self) -> None:
        self.source, self.to_wire = os.pipe()
        self.from_wire, self.sink = os.pipe()
        os.set_blocking(self.from_wire, False)
        self.log: list[str] = []
        self.wire = AcpConnection(self.source, self.sink, self.log.append)
        self.served = Served()
        self.running = asyncio.create_task(self.wire.run(self.served))
        self._framer, self._lines = LineFramer(), []

    def put(self, *frames: Any) -> None:
        for frame in frames:
            os.write(self.to_wire, frame if isinstance(frame, bytes) else json.dumps(frame).encode() + b"\n")

    async def get(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            while not self._lines:
                async for chunk in chunks(self.from_wire):
                    self._lines += [json.loads(line.data) for line in self._framer.feed(chunk)]
                    if self._lines:
                        break
            return self._lines.pop(0)

    def hang_up(self) -> None:
        os.close(self.to_wire)
        self.to_wire = -1

    async def close(self) -> None:
        if self.to_wire >= 0:
            self.hang_up()
        await asyncio.wait_for(self.running, PATIENCE)
        for fd in (self.source, self.sink, self.from_wire):
            if fd >= 0:
                os.close(fd)


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    line = Line()
    yield line
    await line.close()


def ask(id: Any, method: str = "echo", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def result(id: Any, **value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": value}


async def test_requests_are_answered_under_their_own_id(line: Line) -> None:
    line.put(ask(1, a=1), ask("1", b=2), ask(None), ask(0), {"jsonrpc": "2.0", "method": "note", "params": {"c": 3}})
    assert [await line.get() for _ in range(4)] == [result(1, a=1), result("1", b=2), result(None), result(0)]
    await line.close()
    line.from_wire = line.source = line.sink = -1
    assert ("note", {"c": 3}) in line.served.told


async def test_what_is_no_message_is_answered_as_that(line: Line) -> None:
    """By the codes of JSON-RPC; a batch is no message of ACP."""
    for sent in (b"hello\n", b"\xff\xfe{\n", b"[" * 5000 + b"\n", b'{"a": \n', b'{"jsonrpc":"2.0","id":1\n'):
        line.put(sent)
        assert await error(line) == (None, -32700), sent
    for other in (b"123\n", b"[]\n", b"null\n", b'"x"\n', [ask(7)], [ask(7), ask(8)], {}, {"id": {}}, {"method": 5}):
        line.put(other)
        assert await error(line) == (None, -32600), other
    line.put({"jsonrpc": "2.0", "id": 9}, {"jsonrpc": "2.0", "id": "a", "method": None})
    assert [await error(line), await error(line)] == [(9, -32600), ("a", -32600)]
    assert len(line.log) == 16 and all(len(entry) < 300 for entry in line.log)
    assert line.served.told == []  # nothing of a batch was carried out


async def test_what_needs_no_answer_gets_none(line: Line) -> None:
    """Empty lines, and answers to nothing: to answer those could go on for ever."""
    line.put(b"\n", b"  \r\n", {"id": 99, "result": {}}, {"id": None, "error": {"code": -32700, "message": "x"}})
    line.put(ask(8, ok=True))
    assert await line.get() == result(8, ok=True)


async def error(line: Line) -> tuple[Any, int]:
    answer = await line.get()
    assert answer["jsonrpc"] == "2.0" and answer["error"]["message"] and "result" not in answer
    return answer["id"], answer["error"]["code"]


async def test_lone_surrogates_and_invalid_utf8_cost_a_character(line: Line) -> None:
    line.put(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":"\\ud800"}}\n')
    line.put(b'{"jsonrpc":"2.0","id":2,"method":"echo","params":{"a":"\xff"}}\n')
    assert [await line.get(), await line.get()] == [result(1, a="�"), result(2, a="�")]


@pytest.mark.parametrize("id", [True, 1.5, {}, []])
async def test_an_id_that_is_none_is_refused(line: Line, id: Any) -> None:
    line.put(ask(id))
    answer = await line.get()
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)


async def test_an_id_in_use_is_refused(line: Line) -> None:
    line.put(ask(5, "wait"), ask(5))
    assert (await line.get())["error"]["code"] == -32600
    line.served.go.set()
    assert await line.get() == result(5)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": [1]}, -32602),
        (ask(1, "fail"), -32603),
        (ask(1, "refuse"), -32600),
    ],
)
async def test_what_cannot_be_answered_is_an_error_and_the_next_works(line: Line, frame: Any, code: int) -> None:
    line.put(frame, ask(2))
    answer = await line.get()
    assert (answer["id"], answer["error"]["code"]) == (1, code)
    assert await line.get() == result(2)


async def test_an_error_of_ostler_tells_its_kind_and_what_to_do(line: Line) -> None:
    line.put(ask(1, "refuse"))
    error = (await line.get())["error"]
    data = {"kind": "busy", "hint": "Later", "details": "not now"}
    assert error == {"code": -32600, "message": "not now. Later", "data": data}


async def test_a_message_that_is_too_large_is_refused_by_its_id(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires, "FRAME_LIMIT", 1 << 20)
    other = Line()
    try:
        big = json.dumps(ask("big", text="x" * (2 << 20))).encode() + b"\n"
        await asyncio.to_thread(
            lambda: [os.write(other.to_wire, big[n : n + 65536]) for n in range(0, len(big), 65536)]
        )
        other.put(b'{"params":{"id":4,"x":"' + b"y" * 100 + b'"}}\n', ask(9))
        answer = await other.get()
        assert (answer["id"], answer["error"]["code"]) == ("big", -32600)
        assert await error(other) == (None, -32600)  # the id of its parameters is not its own
        assert await other.get() == result(9)
    finally:
        await other.close()


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


async def test_we_ask_too(line: Line) -> None:
    asked = asyncio.create_task(line.wire.request("who", {"x": 1}))
    frame = await line.get()
    assert (frame["method"], frame["params"]) == ("who", {"x": 1})
    line.put(result(frame["id"] + 50), result(str(frame["id"])), result(frame["id"], name="zed"))
    assert await asked == {"name": "zed"}
    line.put(result(frame["id"], name="again"), ask(1))
    assert await line.get() == result(1)


async def test_an_error_of_theirs_is_raised(line: Line) -> None:
    asked = asyncio.create_task(line.wire.request("who", {}))
    frame = await line.get()
    line.put({"jsonrpc": "2.0", "id": frame["id"], "error": {"code": -32601, "message": "no such method"}})
    with pytest.raises(AcpError) as refused:
        await asked
    assert (refused.value.code, refused.value.message) == (-32601, "no such method")


async def test_a_request_of_ours_that_is_given_up_is_taken_back(line: Line) -> None:
    asked = asyncio.create_task(line.wire.request("who", {}))
    frame = await line.get()
    asked.cancel()
    assert await line.get() == {
        "jsonrpc": "2.0",
        "method": "$/cancel_request",
        "params": {"requestId": frame["id"]},
    }
    line.put(result(frame["id"], too="late"), ask(1))
    assert await line.get() == result(1)


async def test_a_request_of_theirs_is_taken_back(line: Line) -> None:
    line.put(ask(1, "wait"), ask("1", "wait", graceful=True))
    line.put({"method": "$/cancel_request", "params": {"requestId": 1}})
    answer = await line.get()
    assert (answer["id"], answer["error"]["code"]) == (1, -32800)
    line.put({"method": "$/cancel_request", "params": {"requestId": "1"}}, ask(2))
    assert await line.get() == result(2)  # the other one ends by itself
    line.served.go.set()
    assert await line.get() == result("1", graceful=True)
    line.put({"method": "$/cancel_request", "params": {"requestId": [1]}}, ask(3))
    assert await line.get() == result(3)


async def test_a_slow_reader_holds_us_back(line: Line) -> None:
    told = 0

    async def tell() -> None:
        nonlocal told
        for number in range(5000):
            await line.wire.notify("tick", {"number": number, "more": "x" * 1000})
            told += 1

    telling = asyncio.create_task(tell())
    before = -1
    while told != before:  # until nothing moves any more
        before = told
        for _ in range(50):
            await asyncio.sleep(0)
    assert told < 1000  # what the pipe holds
    got = [(await line.get())["params"]["number"] for _ in range(5000)]
    await telling
    assert got == list(range(5000))


async def test_only_so_many_requests_are_at_work(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires, "IN_FLIGHT", 3)
    line.put(*(ask(n, "wait") for n in range(4)))
    answer = await line.get()
    assert (answer["id"], answer["error"]["code"]) == (3, -32600)
    line.served.go.set()
    assert [(await line.get())["id"] for _ in range(3)] == [0, 1, 2]


async def test_hanging_up_ends_what_is_at_work(line: Line) -> None:
    line.put(ask(1, "wait"))
    asked = asyncio.create_task(line.wire.request("who", {}))
    await line.get()
    line.hang_up()
    with pytest.raises(OstlerError) as error:
        await asked
    assert error.value.kind == "undelivered"
    assert await line.get() == result(1)
    await line.running
    assert line.served.left
    assert os.get_blocking(line.source) and os.get_blocking(line.sink)
    with pytest.raises(OstlerError):
        await line.wire.request("who", {})


async def test_a_reader_that_is_gone_is_an_end_too(line: Line) -> None:
    os.close(line.from_wire)
    line.from_wire = -1
    line.put(ask(1))
    await asyncio.wait_for(line.running, PATIENCE)
    assert line.served.left


async def test_who_is_greeted_has_been_answered(line: Line) -> None:
    line.put(ask(1), ask(2, "refuse"))
    await line.get()
    await line.get()
    line.hang_up()
    await line.running
    assert line.served.told == ["echo", ("answered", "echo"), "refuse"]
