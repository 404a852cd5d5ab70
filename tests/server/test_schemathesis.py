"""The whole API as its document describes it, with values that nobody would think of: with a token, and without one."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ostler import clock
from ostler.pipelines.model import RunRow
from ostler.pipelines.parse import parse_pipeline
from ostler.pipelines.runs import Runs
from server.conftest import Yard, yard_at
from server.test_sessions import make, run
from waiting import until

GATE = '[nodes.ask]\ngate = "Go on?"\n'
HARMLESS = frozenset(("true", "echo", "cat"))
ENDLESS = "/api/live"  # a stream that ends with its listener: see test_live.py
EXAMPLES = 5  # of each operation, and half as many bad ones

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


class Farm:
    """A server in a thread of its own, and what there is in it to be asked for."""

    def __init__(self, yard: Yard, loop: asyncio.AbstractEventLoop, doc: dict[str, Any]) -> None:
        self.yard, self.loop = yard, loop
        self.schema = schemathesis.openapi.from_dict(doc)
        self.schema.config.update(base_url=yard.url)
        self.ids: dict[str, str] = {}

    def do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    async def stock(self, path: str = "") -> None:
        """A session with a turn, and a terminal with a program in it: as new as `path` needs them."""
        if not self._has("session"):
            session = (await make(self.yard))["id"]
            self.ids = {"session": session, "turn": (await run(self.yard, session))["id"], "name": "prompt"}
        if not self._has("terminal") or "{terminal}" in path:
            if self._has("terminal"):  # a session has so many at most
                await self.yard.client.post(f"/api/terminals/{self.ids['terminal']}/kill", json={})
            body = {"session": self.ids["session"], "argv": ["cat"]}
            opened = await self.yard.client.post("/api/terminals", json=body)
            assert opened.status_code == 201, opened.text
            self.ids["terminal"] = opened.json()["id"]
            if path.endswith("/wait"):  # for as long as it is told to: so its program has ended
                await self.yard.client.post(f"/api/terminals/{self.ids['terminal']}/kill", json={})
        if "{account}" in path:
            self.ids["account"] = "hay"
            await self.yard.ostler.store.park("hay", clock.now() + 3600, "no more of it")
        if "{run}" in path:
            self.ids |= {"run": await self._run(), "node": "ask"}
        if path.startswith("/api/turns") and path.endswith(("/answer", "/steer")):
            self.ids["turn"] = await self._asking()
        else:
            self.ids["turn"] = self.yard.ostler.store.turns(self.ids["session"])[0].id

    async def _asking(self) -> str:
        """A turn that waits for an answer, and then for a word on the way."""
        session = (await make(self.yard, access="write"))["id"]
        body = {"prompt": '[[ask:{"tool": "shell"}]] [[hear]] [[never_end]]', "transport": "dialog"}
        begun = await self.yard.client.post(f"/api/sessions/{session}/turns", json=body)
        assert begun.status_code == 202, begun.text
        turn = str(begun.json()["id"])
        self.ids["ask"] = (await until(lambda: self.yard.ostler.open_asks(turn)))[0].id
        return turn

    async def _run(self) -> str:
        """A run of a pipeline whose process has died while it waited for a person."""
        runs = Runs(self.yard.ostler.store)
        row = await runs.add(runs.new(parse_pipeline("x.toml", GATE), str(self.yard.folder), {}))
        await runs.change_node(row.id, "ask", state="gate", question="Go on?")
        return row.id

    def _has(self, what: str) -> bool:
        store = self.yard.ostler.store
        find = {"session": store.session, "terminal": store.terminal}[what]
        found = find(self.ids[what]) if what in self.ids else None
        return found is not None and found.state != "closed"

    def operations(self, endless: bool = False) -> list[APIOperation]:
        found = [each.ok() for each in self.schema.get_all_operations()]
        return [each for each in found if endless or each.path != ENDLESS]


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    base: Path = tmp_path_factory.mktemp("farm")
    begun: Future[Farm] = Future()
    over = threading.Event()

    async def serve() -> None:
        async with yard_at(base, terminal_commands=HARMLESS) as yard:
            doc = (await yard.client.get("/api/openapi.json")).json()
            farm = Farm(yard, asyncio.get_running_loop(), doc)
            # An interpreter for each of dozens of runs takes a minute; test_pipelines.py has some that really run.
            yard.site.run_processes.start = lambda run: disowned(yard, run)  # type: ignore[method-assign]
            await farm.stock()
            begun.set_result(farm)
            await until(over.is_set, seconds=600)

    def work() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if not begun.done():
                begun.set_exception(error)
            raise

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield begun.result(60)
    finally:
        over.set()
        thread.join(60)
        assert not thread.is_alive()


async def disowned(yard: Yard, run: RunRow) -> None:
    """As if the process of a run had died at once."""
    await yard.site.run_processes.runs.change(run.id, owner=None)


@pytest.mark.long
def test_with_a_token(farm: Farm) -> None:
    asked: dict[str, set[int]] = {}
    token, session = farm.yard.token(), plain_session()

    def check(case: Case, mode: GenerationMode, dice: int) -> None:
        aim(case, mode, farm, dice)
        # A token is spent by its logout: each has its own.
        headers = farm.yard.bearer() if case.path == "/api/logout" else {"authorization": f"Bearer {token}"}
        answer = case.call(headers=headers, session=session)
        statuses = asked.setdefault(case.operation.label, set())
        # It asks twice more, without the token and with a wrong one: once for each status is enough.
        probed = case.path != "/api/login" and answer.status_code not in statuses
        statuses.add(answer.status_code)
        case.validate_response(answer, checks=[*CHECKS, *([ignored_auth] if probed else [])], headers=headers)

    for operation in farm.operations():
        farm.do(farm.stock(operation.path))
        each_example(operation, check)
    good = [name for name, statuses in asked.items() if any(status < 300 for status in statuses)]
    assert sorted(good) == sorted(operation.label for operation in farm.operations()), "each of them did something"


def test_without_a_token(farm: Farm) -> None:
    session = plain_session()

    def check(case: Case, mode: GenerationMode, dice: int) -> None:
        aim(case, mode, farm, dice)
        answer = case.call(session=session)
        if case.path == "/api/login":
            assert answer.status_code in (200, 400, 401), "a link is good for that"
        else:
            assert answer.status_code == 401, case.as_curl_command()
        case.validate_response(answer, checks=CHECKS)

    for operation in farm.operations(endless=True):
        farm.do(farm.stock(operation.path))
        before = [row.id for row in farm.yard.ostler.sessions()]
        each_example(operation, check, count=2)
        assert [row.id for row in farm.yard.ostler.sessions()] == before


def plain_session() -> requests.Session:
    """One that keeps no cookie, and does not look for proxies and passwords before each request."""
    session = requests.Session()
    session.trust_env = False
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return session


def each_example(operation: APIOperation, check: Any, count: int = EXAMPLES) -> None:
    """Good ones and bad ones; bounded, and the same every time."""
    modes = [GenerationMode.POSITIVE]
    if operation.body or operation.query or operation.headers:
        modes.append(GenerationMode.NEGATIVE)
    for mode in modes:
        _examples(operation, mode, check, count if mode is GenerationMode.POSITIVE else (count + 1) // 2)


def _examples(operation: APIOperation, mode: GenerationMode, check: Any, count: int) -> None:
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode), st.integers(0, 3))
    def example(case: Case, dice: int) -> None:
        check(case, mode, dice)

    example()


def aim(case: Case, mode: GenerationMode, farm: Farm, dice: int) -> None:
    """Three of four, and the first, are about something that is there: else not much but its absence would be tried."""
    if dice == 3:  # the first example has 0
        return
    for name in case.path_parameters or {}:
        case.path_parameters[name] = farm.ids.get(name, case.path_parameters[name])
    if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
        case.body.update(real(case.operation.label, case.body, farm))


def real(label: str, body: dict[str, Any], farm: Farm) -> dict[str, Any]:
    """Values that a body needs to be about something that is there."""
    match label:
        case "POST /api/sessions":
            return {"agent": "script", "folder": str(farm.yard.folder)}
        case "POST /api/sessions/{session}/turns":
            return {"attachments": [], "schema": None, "limits": None, "prompt": f"[[say:ok]] {body['prompt']}"}
        case "POST /api/sessions/{session}/hand":
            return {"agent": "script", "name": None}
        case "PUT /api/sessions/{session}/primary":
            return {"terminal": farm.ids["terminal"]}
        case "POST /api/terminals":
            words = [word.replace("\0", "") for word in body["argv"][1:]]
            return {"session": farm.ids["session"], "argv": ["echo", *words], "folder": None, "env": None, "name": None}
        case "POST /api/terminals/{terminal}/input":
            return {"take": True}
        case "POST /api/terminals/{terminal}/resize":
            return {"cols": 100, "rows": 30}
        case "POST /api/turns/{turn}/answer":
            return {"ask": farm.ids["ask"], "option": "deny"}
        case "POST /api/pipelines/check" | "POST /api/runs":
            source = {"folder": str(farm.yard.folder), "text": GATE, "example": None, "file": None}
            return source | ({"inputs": {}} if "inputs" in body else {})
        case "POST /api/runs/{run}/fork":
            return {"node": "ask", "prompt": None}
        case "POST /api/runs/{run}/nodes/{node}/answer":
            return {} if body["go"] else {"answer": None, "prompt": None}
        case "POST /api/login":
            return {"token": farm.yard.auth.sign("link", "view", "guest", 60)}
    return {}
