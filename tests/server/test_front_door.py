"""The front door: sessions of another machine, asked for here."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import websockets

from machines.conftest import database, postgres  # noqa: F401
from ostler.machines import membership, states
from ostler.server.front_door import FrontDoor
from ostler.server.live_index import LiveIndex
from ostler.server.remote_sessions import RemoteSessions
from ostler.server.uploads import Uploads
from server.machine_yards import MachineYard, joined_yard
from server.watching import watching
from waiting import until

pytestmark = pytest.mark.asyncio


class Pair(NamedTuple):
    """`door` is asked, `far` has the sessions."""

    door: MachineYard
    far: MachineYard

    @property
    def http(self) -> httpx.AsyncClient:
        return self.door.client


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats come quickly."""
    for module in (membership, states):
        monkeypatch.setattr(module, "BEAT", 0.05)


@pytest.fixture
async def pair(tmp_path: Path, database: str) -> AsyncIterator[Pair]:  # noqa: F811
    async with AsyncExitStack() as stack:
        far = await stack.enter_async_context(joined_yard(tmp_path, "owl", database))
        door = await stack.enter_async_context(joined_yard(tmp_path, "hawk", database))
        assert [seen.name for seen in door.membership.machines] == ["hawk", "owl"]
        yield Pair(door, far)


async def new_session(pair: Pair, **more: Any) -> dict[str, Any]:
    body = {"agent": "script", "folder": str(pair.far.folder), **more}
    made = await pair.http.post("/api/sessions?machine=owl", json=body)
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()
    return found


async def run(client: httpx.AsyncClient, session: str, prompt: str, **more: Any) -> dict[str, Any]:
    started = await client.post(f"/api/sessions/{session}/turns", json={"prompt": prompt, **more})
    assert started.status_code == 202, started.text
    turn = started.json()["id"]

    async def ended() -> Any:
        answer = await client.get(f"/api/turns/{turn}/envelope")
        return answer.json() if answer.status_code == 200 else None

    found: dict[str, Any] = await until(ended)
    return found


# -- REST -------------------------------------------------------------------------------------------------


async def test_a_session_elsewhere_is_used_as_one_that_is_here(pair: Pair) -> None:
    session = await new_session(pair, name="oats")
    id = session["id"]
    assert pair.far.ostler.find(id).name == "oats" and pair.door.ostler.store.find(id) == []
    envelope = await run(pair.http, id, "[[say:neigh]]")
    assert (envelope["status"], envelope["text"], envelope["session"]) == ("ok", "neigh", id)
    by_name = await until(lambda: _got(pair.http, "/api/sessions/oats"))
    assert by_name["id"] == id and by_name["turns"] == 1
    assert (await pair.http.get(f"/api/sessions/{id}@owl")).json()["id"] == id
    page = (await pair.http.get(f"/api/sessions/{id}/events")).json()
    assert page["items"] == (await pair.far.client.get(f"/api/sessions/{id}/events")).json()["items"]
    shown = await pair.http.get(f"/api/turns/{page['items'][-1]['turn']}/artifacts/prompt")
    assert (shown.status_code, shown.text.strip()) == (200, "[[say:neigh]]")
    assert "attachment" in shown.headers["content-disposition"]
    assert (await pair.http.post(f"/api/sessions/{id}/close")).json()["state"] == "closed"
    assert (await pair.http.delete(f"/api/sessions/{id}")).status_code == 204
    assert (await pair.http.get(f"/api/sessions/{id}@owl")).status_code == 404


async def _got(client: httpx.AsyncClient, path: str) -> Any:
    answer = await client.get(path)
    return answer.json() if answer.status_code == 200 else None


async def test_what_is_passed_on_is_counted_as_that(pair: Pair) -> None:
    session = await new_session(pair)
    assert (await pair.http.get(f"/api/sessions/{session['id']}")).status_code == 200
    counted = (await pair.http.get("/metrics")).text
    assert 'ostler_http_requests_total{method="GET",route="passed",status="200"} 1.0' in counted
    assert 'ostler_http_requests_total{method="POST",route="passed",status="201"} 1.0' in counted
    assert 'route="page"' not in counted


async def test_connections_are_kept(pair: Pair) -> None:
    session = await new_session(pair)
    seen = []
    for _ in range(5):
        assert (await pair.http.get(f"/api/sessions/{session['id']}")).status_code == 200
        front_door = pair.door.site.front_door
        assert front_door is not None
        (client,) = front_door._clients.values()
        seen.append(client._idle[-1])
    assert len(set(seen)) == 1


async def test_what_is_wrong_is_said_by_the_machine_that_has_it(pair: Pair) -> None:
    session = await new_session(pair)
    refused = await pair.http.post(f"/api/sessions/{session['id']}/turns", json={"prompt": "", "nonsense": 1})
    assert refused.status_code == 400 and refused.headers["content-type"] == "application/problem+json"
    assert (await pair.http.get("/api/sessions/nobody")).status_code == 404
    unknown = await pair.http.get("/api/agents?machine=heron")
    assert unknown.status_code == 404 and "Known machines: hawk, owl" in unknown.json()["hint"]


async def test_no_new_session_goes_to_a_machine_that_drains(pair: Pair) -> None:
    session = await new_session(pair)
    owl = pair.door.membership.others[0]
    await pair.door.membership.directory.drain(owl.id, True)
    await until(lambda: pair.door.membership.others[0].state == "draining")
    body = {"agent": "script", "folder": str(pair.far.folder)}
    refused = await pair.http.post("/api/sessions?machine=owl", json=body)
    assert (
        refused.status_code == 409 and "machine owl is draining and accepts no new sessions" in refused.json()["detail"]
    )
    assert (await run(pair.http, session["id"], "[[say:neigh]]"))["status"] == "ok"  # what it has goes on
    await pair.door.membership.directory.drain(owl.id, False)
    await until(lambda: pair.door.membership.others[0].state == "live")
    await new_session(pair)


async def test_an_upload_goes_where_the_turn_goes(pair: Pair) -> None:
    session = await new_session(pair)
    headers = {"content-type": "application/octet-stream"}
    upload = (await pair.http.put("/api/uploads/oats.txt", content=b"hay", headers=headers)).json()["upload"]
    envelope = await run(pair.http, session["id"], "read it", attachments=[{"upload": upload}])
    assert envelope["status"] == "ok"
    (turn,) = pair.far.ostler.store.turns(session["id"])
    (attached,) = turn.turn.attachments
    assert attached.path.startswith(str(pair.far.ostler.store.folder)) and attached.path.endswith("oats.txt")


# -- rights -----------------------------------------------------------------------------------------------


async def test_rights_hold_on_the_other_machine(pair: Pair) -> None:
    session = await new_session(pair)
    id = session["id"]
    async with pair.door.as_("view") as viewer, pair.door.as_("type") as typist, pair.door.as_(None) as nobody:
        assert (await viewer.get(f"/api/sessions/{id}")).status_code == 200
        assert (await viewer.get(f"/api/folders?machine=owl&at={pair.far.folder}")).status_code == 403
        assert (await typist.get(f"/api/folders?machine=owl&at={pair.far.folder}")).status_code == 200
        assert (await viewer.post(f"/api/sessions/{id}/turns", json={"prompt": "x"})).status_code == 403
        assert (await typist.delete(f"/api/sessions/{id}")).status_code == 403
        assert (await nobody.get(f"/api/sessions/{id}")).status_code == 401
    # A login of one machine is worth nothing at another, nor is a token that was signed for a third one.
    far = f"{pair.far.url}/api/sessions/{id}"
    assert (await pair.http.get(far)).status_code == 401
    stray = pair.door.membership.sign_for(pair.door.membership.me, "p", "ann", "admin")
    good = pair.door.membership.sign_for(pair.door.membership.others[0], "p", "ann", "view")
    for token, status in ((stray, 401), (good, 200), (good[:-4], 401)):
        headers = {"authorization": f"Bearer {token}"}
        async with pair.far.as_(None, headers=headers) as asking:
            assert (await asking.get(far)).status_code == status


async def test_who_is_logged_out_there_is_so_alone(pair: Pair) -> None:
    far = pair.door.membership.others[0]
    for person, status in (("ann", 204), ("ann", 401), ("bob", 204)):
        token = pair.door.membership.sign_for(far, person, person, "view")
        async with pair.far.as_(None, headers={"authorization": f"Bearer {token}"}) as asking:
            assert (await asking.post("/api/logout")).status_code == status


# -- live -------------------------------------------------------------------------------------------------


async def test_events_of_another_machine_are_streamed(pair: Pair) -> None:
    session = await new_session(pair)
    path = f"/api/sessions/{session['id']}/events"
    async with pair.http.stream("GET", path, headers={"accept": "text/event-stream"}) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        task = asyncio.create_task(run(pair.http, session["id"], "[[say:neigh]]"))
        kinds = []
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                kinds.append(line.removeprefix("event: "))
            if line == "event: ended":
                break
        await task
    assert kinds[0] == "started" and "text" in kinds


async def test_a_person_types_into_a_terminal_of_another_machine(pair: Pair) -> None:
    session = await new_session(pair)
    opened = await pair.http.post("/api/terminals", json={"session": session["id"], "argv": ["cat"]})
    assert opened.status_code == 201, opened.text
    id = opened.json()["id"]
    listed = (await pair.http.get(f"/api/terminals?session={session['id']}")).json()["items"]
    assert [row["id"] for row in listed] == [id]
    url = f"{pair.door.ws}/api/terminals/{id}/ws"
    async with watching(url, pair.door.bearer("type")) as viewer:
        await viewer.take()
        await viewer.type("hay and oats")
        await viewer.until(lambda viewer: viewer.shows("hay and oats"))
    async with watching(url, pair.door.bearer("view")) as viewer:
        await viewer.until(lambda viewer: viewer.shows("hay and oats"))
        await viewer.type("straw")
        await viewer.until(lambda viewer: viewer.errors)
        assert viewer.errors[0].problem.kind == "denied"
    await pair.http.post(f"/api/terminals/{id}/kill")
    assert (await pair.http.get(f"/api/terminals/{id}/wait")).json()["state"] == "ended"
    with pytest.raises(websockets.InvalidStatus) as refused:
        await websockets.connect(
            f"{pair.door.ws}/api/terminals/t-nothing@owl/ws", additional_headers=pair.door.bearer(), proxy=None
        )
    assert refused.value.response.status_code == 404


async def test_all_machines_are_in_one_list_and_one_live_view(pair: Pair) -> None:
    here = (await pair.http.post("/api/sessions", json={"agent": "script", "folder": str(pair.door.folder)})).json()
    there = await new_session(pair)
    listed = (await pair.http.get("/api/sessions")).json()["items"]
    assert {each["id"]: (each["machine"], each["reachable"]) for each in listed} == {
        here["id"]: ("", True),
        there["id"]: ("owl", True),
    }
    async with pair.http.stream("GET", "/api/live") as stream:
        rows: dict[str, str] = {}
        lines = stream.aiter_lines()
        async for line in lines:
            if line.startswith("data: ") and "machine" in (row := json.loads(line[6:])):
                rows[row["id"]] = row["machine"]
            if rows.keys() == {here["id"], there["id"]}:
                break
        assert rows == {here["id"]: "", there["id"]: "owl"}
        later = await new_session(pair, name="later")
        async for line in lines:
            if line.startswith("data: ") and later["id"] in line:
                break


async def test_sessions_are_searched_where_they_are(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many newer ones the other machine has."""
    oats = await new_session(pair, name="oats & hay")
    later = await new_session(pair, name="later")
    asked: list[str] = []
    get = FrontDoor.get

    async def noted(door: FrontDoor, machine: Any, person: Any, target: str) -> tuple[int, bytes]:
        asked.append(target)
        return await get(door, machine, person, target)

    monkeypatch.setattr(FrontDoor, "get", noted)
    for query, found in (("query=oats+%26&limit=1", [oats]), ("state=idle&limit=1", [later]), ("state=busy", [])):
        listed = (await pair.http.get(f"/api/sessions?{query}")).json()["items"]
        assert [each["id"] for each in listed] == [each["id"] for each in found]
    assert asked == [
        "/api/sessions?query=oats+%26&limit=1",
        "/api/sessions?state=idle&limit=1",
        "/api/sessions?state=busy&limit=500",
    ]


async def test_who_joins_while_the_last_one_leaves_goes_on_following(pair: Pair) -> None:
    door = pair.door.ostler
    remote = RemoteSessions(FrontDoor(door, pair.door.membership, Uploads(door.store.folder)))
    index = LiveIndex(door.store.watch())
    remote.follow(index)
    leaving = asyncio.create_task(remote.leave())
    await asyncio.sleep(0)  # it waits for what it has stopped
    remote.follow(index)
    await leaving
    assert (remote._looking.running, remote._queue.running) == (True, True)
    await remote.leave()
    assert (remote._looking.running, remote._queue.running) == (False, False)


async def test_a_page_follows_the_journal_of_another_machine(pair: Pair) -> None:
    session = await new_session(pair)
    url = f"{pair.door.ws}/api/live/ws"
    async with websockets.connect(url, additional_headers=pair.door.bearer("view"), proxy=None) as page:
        await page.send(json.dumps({"kind": "follow", "n": 7, "session": session["id"]}))
        await page.send(json.dumps({"kind": "follow", "n": 8, "session": "nobody"}))
        await run(pair.http, session["id"], "[[say:neigh]]")
        told: dict[str, str] = {"7": "", "8": ""}
        while "event: ended" not in told["7"] or "event: refused" not in told["8"]:
            data = await page.recv()
            n, _, piece = (data if isinstance(data, str) else zlib.decompress(data).decode()).partition("\n")
            told[n] = told.get(n, "") + piece
    assert "id: 1\nevent: started\n" in told["7"] and "neigh" in told["7"]


# -- runs of pipelines ---------------------------------------------------------------------------------------

GATED = """
name = "gated"
[nodes.ask]
gate = "Feed them?"
[nodes.feed]
command = ["echo", "fed"]
needs = ["ask"]
"""


async def reached(client: httpx.AsyncClient, run: str, state: str, node: str = "") -> dict[str, Any]:
    """The run, once it or one of its nodes is in this state."""

    async def look() -> dict[str, Any] | None:
        view: dict[str, Any] = (await client.get(f"/api/runs/{run}")).json()
        states = {each["name"]: each["state"] for each in view["nodes"]} | {"": view["state"]}
        return view if states[node] == state else None

    found: dict[str, Any] = await until(look)
    return found


async def test_a_run_of_another_machine_is_started_seen_answered_and_listed(pair: Pair) -> None:
    body = {"folder": str(pair.far.folder), "text": GATED}
    started = await pair.http.post("/api/runs?machine=owl", json=body)
    assert started.status_code == 202, started.text
    id = started.json()["id"]
    async with pair.http.stream("GET", "/api/live") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: ") and f'"id":"{id}"' in line:
                assert json.loads(line[6:])["machine"] == "owl"
                break
    await reached(pair.http, id, "gate", "ask")
    async with pair.door.as_("view") as viewer:
        assert (await viewer.post(f"/api/runs/{id}/cancel")).status_code == 403
    answered = await pair.http.post(f"/api/runs/{id}/nodes/ask/answer", json={"go": True})
    assert answered.status_code == 200, answered.text
    done = await reached(pair.http, id, "done")
    fed = next(each for each in done["nodes"] if each["name"] == "feed")
    assert (await pair.http.get(f"/api/sessions/{fed['session']}")).status_code == 200
    assert "fed" in (await pair.http.get(f"/api/runs/{id}/report")).text
    listed = (await pair.http.get("/api/runs")).json()["items"]
    assert [(each["id"], each["machine"], each["reachable"]) for each in listed] == [(id, "owl", True)]
    await pair.far.membership.directory.leave(pair.far.membership.id, pair.far.membership.epoch)
    assert (await pair.http.get("/api/runs/r-nowhere")).status_code == 404


async def test_runs_of_a_machine_that_is_away_stay_in_the_list(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"folder": str(pair.far.folder), "text": GATED}
    id = (await pair.http.post("/api/runs?machine=owl", json=body)).json()["id"]
    await reached(pair.http, id, "gate", "ask")
    assert [each["id"] for each in (await pair.http.get("/api/runs")).json()["items"]] == [id]
    await pair.far.membership._beating.stop()
    monkeypatch.setattr(states, "LEASE", 0.2)
    await until(lambda: pair.door.membership.others[0].state == "unreachable")
    (listed,) = (await pair.http.get("/api/runs")).json()["items"]
    assert (listed["id"], listed["machine"], listed["reachable"]) == (id, "owl", False)


# -- a machine that is away ---------------------------------------------------------------------------------


@pytest.fixture
async def alone(tmp_path: Path, database: str) -> AsyncIterator[tuple[MachineYard, str]]:  # noqa: F811
    """A machine, and a session of another one that has ended without a word."""
    stack = AsyncExitStack()
    far = await stack.enter_async_context(joined_yard(tmp_path, "owl", database))
    async with joined_yard(tmp_path, "hawk", database) as door:
        made = await far.client.post(
            "/api/sessions", json={"agent": "script", "folder": str(far.folder), "name": "oats"}
        )
        id = made.json()["id"]
        await until(lambda: far.membership.directory.find_sessions(id))
        far.membership.directory.leave = _say_nothing  # type: ignore[method-assign]
        await stack.aclose()
        yield door, id


async def _say_nothing(id: str, epoch: int) -> None:
    pass


async def test_a_machine_that_has_just_died_is_named_at_once(alone: tuple[MachineYard, str]) -> None:
    """Its lease still runs: nobody listens there."""
    door, id = alone
    answer = await door.client.get(f"/api/sessions/{id}")
    assert answer.status_code == 502 and "machine owl cannot be reached" in answer.json()["detail"]
    listed = (await door.client.get("/api/sessions")).json()["items"]
    assert [(each["id"], each["name"], each["machine"], each["reachable"]) for each in listed] == [
        (id, "oats", "owl", False)
    ]
    async with door.client.stream("GET", "/api/live") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: ") and id in line:
                assert json.loads(line[6:])["reachable"] is False
                break


async def test_a_machine_whose_lease_has_run_out_is_not_asked(
    alone: tuple[MachineYard, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    door, id = alone
    monkeypatch.setattr(states, "LEASE", 0.2)
    await until(lambda: (seen := door.membership.machine("owl")) is not None and seen.state == "unreachable")
    answer = await door.client.get(f"/api/sessions/{id}")
    assert answer.status_code == 502 and "not been heard from" in answer.json()["detail"]
    with pytest.raises(websockets.InvalidStatus) as refused:
        url = f"{door.ws}/api/sessions/{id}/terminal/ws"
        await websockets.connect(url, additional_headers=door.bearer(), proxy=None)
    assert refused.value.response.status_code == 502


async def test_a_stream_ends_when_its_machine_is_lost(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await new_session(pair)
    path = f"/api/sessions/{session['id']}/events"
    with pytest.raises(httpx.RemoteProtocolError):
        async with pair.http.stream("GET", path, headers={"accept": "text/event-stream"}) as stream:
            await pair.far.membership._beating.stop()  # it hangs: its sockets are open, and nothing comes
            monkeypatch.setattr(states, "LEASE", 0.2)
            async for _ in stream.aiter_lines():
                pass
