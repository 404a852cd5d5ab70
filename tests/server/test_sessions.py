"""Sessions and agents over HTTP, on a real server."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ostler.server import routes_agents
from ostler.work import plug_ins
from server.conftest import Yard, yard_at
from waiting import until


async def make(yard: Yard, **fields: Any) -> dict[str, Any]:
    answer = await yard.client.post("/api/sessions", json={"agent": "script", "folder": str(yard.folder), **fields})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def run(yard: Yard, session: str, prompt: str = "[[say:hi]]") -> dict[str, Any]:
    """One turn from beginning to end."""
    answer = await yard.client.post(f"/api/sessions/{session}/turns", json={"prompt": prompt})
    assert answer.status_code == 202, answer.text
    id = answer.json()["id"]
    await until(lambda: yard.ostler.find_turn(id).state == "ended")
    return dict((await yard.client.get(f"/api/turns/{id}")).json())


async def test_a_session_is_stored_at_once(yard: Yard) -> None:
    made = await make(yard, agent="claude", name="barn", access="write", model="opus", system="be brief")
    assert made == {
        "id": made["id"],
        "agent": "claude",
        "folder": str(yard.folder),
        "created_at": made["created_at"],
        "used_at": made["created_at"],
        "name": "barn",
        "served_by": "script",
        "agent_session": None,
        "state": "idle",
        "access": "write",
        "model": "opus",
        "profile": None,
        "system": "be brief",
        "system_mode": "append",
        "turns": 0,
        "cost_usd": None,
        "expires_at": made["expires_at"],
        "title": "",
        "primary": None,
        "fork_of": None,
        "handed_from": None,
        "transport": None,
        "moving_to": None,
        "turn": None,
        "doing": "",
        "queued": 0,
        "live_terminals": 0,
        "machine": "",
        "reachable": True,
        "ask": None,
        "asks": 0,
        "primary_terminal": None,
    }
    assert yard.ostler.find("barn").id == made["id"]


async def test_it_is_found_by_id_name_and_beginning(yard: Yard) -> None:
    made = await make(yard, name="the barn, ü")
    for key in (made["id"], made["id"][:3], "the%20barn%2C%20%C3%BC"):
        assert (await yard.client.get(f"/api/sessions/{key}")).json() == made
    assert (await yard.client.get("/api/sessions/the%20barn")).status_code == 404
    lost = await yard.client.get("/api/sessions/nobody")
    assert (lost.status_code, lost.json()["kind"], lost.headers["content-type"]) == (
        404,
        "not_found",
        "application/problem+json",
    )


async def test_the_list_is_searched_filtered_and_cut(yard: Yard, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    first, second = await make(yard, name="Hay"), await make(yard, folder=str(tmp_path / "elsewhere"), agent="codex")
    await run(yard, first["id"], "[[say:hi]] Sort the straw")

    async def ids(query: str) -> list[str]:
        answer = await yard.client.get(f"/api/sessions{query}")
        assert answer.status_code == 200, answer.text
        return [item["id"] for item in answer.json()["items"]]

    assert await ids("") == [first["id"], second["id"]], "the last used first"
    assert await ids("?limit=1") == [first["id"]]
    for query in ("HAY", "straw", first["id"]):
        assert await ids(f"?query={query}") == [first["id"]]
    for query in ("elsewhere", "codex"):
        assert await ids(f"?query={query}") == [second["id"]]
    assert await ids("?query=nothing") == []
    assert await ids("?state=busy") == [] and len(await ids("?state=idle")) == 2
    for bad in ("?state=sleepy", "?limit=0", "?limit=10001", "?limit=x", f"?query={'x' * 201}"):
        answer = await yard.client.get(f"/api/sessions{bad}")
        assert (answer.status_code, answer.json()["kind"]) == (400, "bad_request"), bad


NO_SESSIONS: list[tuple[dict[str, Any], int, str]] = [
    ({"agent": "claud"}, 404, "not_found"),
    ({"agent": ""}, 400, "bad_request"),
    ({"agent": None}, 400, "bad_request"),
    ({"folder": "/no/such/folder"}, 404, "not_found"),
    ({"folder": "project"}, 400, "bad_request"),
    ({"folder": "/tmp\0"}, 400, "bad_request"),
    ({"folder": "/etc/passwd"}, 400, "bad_request"),
    ({"folder": "/" + "x" * 4096}, 400, "bad_request"),
    ({"access": "all"}, 400, "bad_request"),
    ({"name": ""}, 400, "bad_request"),
    ({"name": "x" * 101}, 400, "bad_request"),
    ({"name": "a\nb"}, 400, "bad_request"),
    ({"model": "a\0"}, 400, "bad_request"),
    ({"system": "a\0"}, 400, "bad_request"),
    ({"colour": "red"}, 400, "bad_request"),
    ({"access": 1}, 400, "bad_request"),
]


async def test_what_cannot_be_a_session(yard: Yard) -> None:
    for fields, status, kind in NO_SESSIONS:
        body = {"agent": "script", "folder": str(yard.folder), **fields}
        answer = await yard.client.post("/api/sessions", json=body)
        assert (answer.status_code, answer.json()["kind"]) == (status, kind), answer.text
        assert answer.json()["detail"] and answer.headers["content-type"] == "application/problem+json"
    assert yard.ostler.sessions() == []


async def test_bodies_that_are_none(yard: Yard) -> None:
    for body in (b"", b"{", b"[]", b"null", b'"x"', b'{"agent":"script"}', b"\xff", b"[" * 100_000):
        answer = await yard.client.post("/api/sessions", content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["kind"]) == (400, "bad_request"), body[:20]
    assert yard.ostler.sessions() == []


async def test_a_folder_may_begin_at_home(yard: Yard) -> None:
    home = Path(yard.ostler.setup.home)
    (home / "field").mkdir()
    assert (await make(yard, folder="~/field"))["folder"] == str(home / "field")
    assert (await make(yard, folder="~"))["folder"] == str(home)


async def test_one_name_one_session(yard: Yard) -> None:
    body = {"agent": "script", "folder": str(yard.folder), "name": "only"}
    answers = await asyncio.gather(*(yard.client.post("/api/sessions", json=body) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409, 409]
    assert {answer.json()["kind"] for answer in answers if answer.status_code == 409} == {"exists"}


async def test_hand_over(yard: Yard) -> None:
    made = await make(yard)
    body = {"agent": "script", "prompt": "[[say:and so it goes on]]", "name": "heir"}
    early = await yard.client.post(f"/api/sessions/{made['id']}/hand", json=body)
    assert early.status_code == 404 and "no turns to hand over" in early.json()["detail"]
    await run(yard, made["id"])
    answer = await yard.client.post(f"/api/sessions/{made['id']}/hand", json=body)
    assert answer.status_code == 201
    heir = answer.json()
    assert (heir["name"], heir["handed_from"], heir["turns"]) == ("heir", made["id"], 1)
    await until(lambda: yard.ostler.find("heir").state == "idle")
    (turn,) = yard.ostler.store.turns(heir["id"])
    assert turn.envelope and turn.envelope.text == "and so it goes on"
    assert turn.turn.prompt.startswith("You take over work that another agent (script) began in this folder.")


async def test_fork(yard: Yard) -> None:
    made = await make(yard)
    early = await yard.client.post(f"/api/sessions/{made['id']}/fork", json={})
    assert (early.status_code, early.json()["kind"]) == (404, "not_found")
    await run(yard, made["id"])
    answer = await yard.client.post(f"/api/sessions/{made['id']}/fork", json={"name": "branch"})
    assert answer.status_code == 201, answer.text
    forked = answer.json()
    assert forked["id"] != made["id"] and forked["fork_of"] == yard.ostler.find(made["id"]).agent_session
    assert (forked["name"], forked["turns"]) == ("branch", 0)
    again = await yard.client.post(f"/api/sessions/{made['id']}/fork", json={"name": "branch"})
    assert (again.status_code, again.json()["kind"]) == (409, "exists")


async def move(yard: Yard, session: str, transport: str, mid_turn: str | None = None) -> Any:
    return await yard.client.post(f"/api/sessions/{session}/move", json={"transport": transport, "mid_turn": mid_turn})


async def test_move(yard: Yard) -> None:
    made = await make(yard, transport="dialog")
    await run(yard, made["id"])
    moved = await move(yard, made["id"], "pty")
    assert (moved.status_code, moved.json()["transport"]) == (200, "pty")
    assert (await run(yard, made["id"]))["transport"] == "pty"
    auto = await yard.client.post(
        f"/api/sessions/{made['id']}/turns", json={"prompt": "[[history]]", "transport": "auto"}
    )
    await until(lambda: yard.ostler.find_turn(auto.json()["id"]).state == "ended")
    ended = (await yard.client.get(f"/api/turns/{auto.json()['id']}")).json()
    assert (ended["transport"], ended["summary"]) == ("pty", "[[say:hi]] [[say:hi]]")
    events = (await yard.client.get(f"/api/sessions/{made['id']}/events?limit=1000")).json()["items"]
    assert [event["text"].partition(":")[0] for event in events if event.get("code") == "moved"] == ["moved to pty"]
    assert (await move(yard, made["id"], "boat")).status_code == 400


async def test_a_busy_session_moves_later_or_at_once(yard: Yard) -> None:
    made = await make(yard)
    body = {"prompt": "[[say:working]] [[never_end]]"}
    turn = (await yard.client.post(f"/api/sessions/{made['id']}/turns", json=body)).json()
    await until(lambda: yard.ostler.find(made["id"]).state == "busy")
    busy = await move(yard, made["id"], "dialog")
    assert (busy.status_code, busy.json()["kind"]) == (409, "busy") and "--wait" in busy.json()["hint"]
    later = await move(yard, made["id"], "dialog", "wait")
    assert (later.status_code, later.json()["transport"]) == (202, None)
    await until(lambda: yard.ostler.find(made["id"]).moving_to == "dialog")
    now = await move(yard, made["id"], "pty", "interrupt")
    assert (now.status_code, now.json()["transport"], now.json()["moving_to"]) == (200, "pty", None)
    assert yard.ostler.find_turn(turn["id"]).envelope.outcome == "cancelled"  # type: ignore[union-attr]


async def test_a_busy_session_says_what_it_does_and_is_not_removed(yard: Yard) -> None:
    made = await make(yard)
    started = await yard.client.post(
        f"/api/sessions/{made['id']}/turns", json={"prompt": "[[say:Looking for hay]] [[never_end]]"}
    )
    url = f"/api/sessions/{made['id']}"
    await until(lambda: yard.ostler.find_turn(started.json()["id"]).state == "running")
    await yard.client.post(f"{url}/turns", json={"prompt": "next", "wait": True})

    async def shown() -> dict[str, Any]:
        return dict((await yard.client.get(url)).json())

    async def working() -> dict[str, Any] | None:
        view = await shown()
        return view if view["doing"] else None

    view = await until(working)
    assert (view["state"], view["doing"], view["queued"]) == ("busy", "Looking for hay", 1)
    assert view["turn"]["id"] == started.json()["id"] and view["turn"]["state"] == "running"

    refused = await yard.client.delete(url)
    assert (refused.status_code, refused.json()["kind"]) == (409, "busy")
    await yard.ostler.cancel(made["id"])
    await until(lambda: yard.ostler.find(made["id"]).state == "idle")
    view = (await yard.client.get(url)).json()
    assert (view["doing"], view["queued"]) == ("", 0)
    assert (await yard.client.delete(url)).status_code == 204
    assert (await yard.client.get(url)).status_code == 404
    assert (await yard.client.delete(url)).status_code == 404
    assert not (Path(yard.ostler.store.folder) / "sessions" / made["id"]).exists()


async def test_a_session_is_removed_with_its_terminals(yard: Yard) -> None:
    made = await make(yard)
    opened = await yard.client.post("/api/terminals", json={"session": made["id"], "argv": ["cat"]})
    assert opened.status_code == 201, opened.text
    pid = opened.json()["pid"]
    assert (await yard.client.delete(f"/api/sessions/{made['id']}")).status_code == 204
    assert (await yard.client.get(f"/api/terminals/{opened.json()['id']}")).status_code == 404
    assert not Path(f"/proc/{pid}").exists()


async def test_a_session_is_closed_with_all_that_runs_in_it_and_its_record_stays(yard: Yard) -> None:
    made = await make(yard)
    url = f"/api/sessions/{made['id']}"
    opened = await yard.client.post("/api/terminals", json={"session": made["id"], "argv": ["cat"]})
    started = await yard.client.post(f"{url}/turns", json={"prompt": "[[say:hay]] [[never_end]]"})
    await until(lambda: yard.ostler.find_turn(started.json()["id"]).state == "running")
    await yard.client.post(f"{url}/turns", json={"prompt": "next", "wait": True})
    closed = await yard.client.post(f"{url}/close")
    assert (closed.status_code, closed.json()["state"], closed.json()["live_terminals"]) == (200, "closed", 0)
    assert not Path(f"/proc/{opened.json()['pid']}").exists()
    turns = (await yard.client.get(f"{url}/turns")).json()["items"]
    assert [turn["outcome"] for turn in turns] == ["cancelled", "cancelled"]
    refused = await yard.client.post(f"{url}/turns", json={"prompt": "more"})
    assert (refused.status_code, refused.json()["kind"]) == (400, "bad_request")
    assert (await yard.client.post(f"{url}/close")).json() == (await yard.client.get(url)).json(), "again: nothing"


async def test_a_session_gets_another_name(yard: Yard) -> None:
    made, other = await make(yard, name="hay"), await make(yard, name="straw")
    named = await yard.client.put(f"/api/sessions/{made['id']}/name", json={"name": "oats"})
    assert (named.status_code, named.json()) == (200, {**made, "name": "oats"})
    taken = await yard.client.put("/api/sessions/oats/name", json={"name": "straw"})
    assert (taken.status_code, taken.json()["kind"]) == (409, "exists")
    assert (await yard.client.put("/api/sessions/oats/name", json={"name": None})).json()["name"] is None
    assert (await yard.client.put(f"/api/sessions/{other['id']}/name", json={"name": "straw"})).status_code == 200
    assert (await yard.client.put(f"/api/sessions/{other['id']}/name", json={"name": "a\tb"})).status_code == 400


async def test_the_terminal_that_is_followed_is_chosen(yard: Yard) -> None:
    made = await make(yard)
    ids = []
    for _ in range(2):
        opened = await yard.client.post("/api/terminals", json={"session": made["id"], "argv": ["cat"]})
        ids.append(opened.json()["id"])
    url = f"/api/sessions/{made['id']}"
    assert (await yard.client.get(url)).json()["primary_terminal"] == ids[1], "the newest one"
    chosen = await yard.client.put(f"{url}/primary", json={"terminal": ids[0]})
    assert chosen.status_code == 200, chosen.text
    assert (chosen.json()["primary"], chosen.json()["primary_terminal"]) == (ids[0], ids[0])
    back = await yard.client.put(f"{url}/primary", json={"terminal": None})
    assert (back.json()["primary"], back.json()["primary_terminal"]) == (None, ids[1])
    for body, status in (({"terminal": "nobody"}, 404), ({}, 400), ({"terminal": 5}, 400)):
        assert (await yard.client.put(f"{url}/primary", json=body)).status_code == status, body


async def test_rights(yard: Yard) -> None:
    made = await make(yard)
    url = f"/api/sessions/{made['id']}"
    body = {"agent": "script", "folder": str(yard.folder)}
    async with yard.as_("view") as viewer, yard.as_("type") as typist:
        for path in ("/api/sessions", url, f"{url}/turns", f"{url}/events", "/api/agents"):
            assert (await viewer.get(path)).status_code == 200, path
        for method, path, sent in (
            ("POST", "/api/sessions", body),
            ("POST", f"{url}/fork", {}),
            ("POST", f"{url}/close", None),
            ("PUT", f"{url}/name", {"name": "mine"}),
            ("PUT", f"{url}/primary", {"terminal": None}),
            ("POST", f"{url}/turns", {"prompt": "hi"}),
            ("DELETE", url, None),
        ):
            answer = await viewer.request(method, path, json=sent)
            assert (answer.status_code, answer.json()["kind"]) == (403, "denied"), path
        assert (await typist.delete(url)).status_code == 403
        assert (await typist.post("/api/sessions", json=body)).status_code == 201
    assert len(yard.ostler.sessions()) == 2 and yard.ostler.store.turns(made["id"]) == []


async def test_agents_are_looked_for_once_a_minute_or_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes_agents, "_AGAIN", 0.0)
    async with yard_at(tmp_path) as yard:
        looked = 0
        doctor = yard.ostler.doctor

        async def counted(**options: Any) -> Any:
            nonlocal looked
            looked += 1
            return await doctor(**options)

        monkeypatch.setattr(yard.ostler, "doctor", counted)
        answers = await asyncio.gather(*(yard.client.get("/api/agents") for _ in range(5)))
        items = answers[0].json()["items"]
        assert [answer.json()["items"] for answer in answers] == [items] * 5 and looked == 1
        script = next(item for item in items if item["name"] == "script")
        assert script["installed"] and script["login"] == "yes" and script["abilities"]["resume"]
        await yard.client.get("/api/agents?refresh=true")
        assert looked == 2


async def test_what_is_wrong_with_plug_ins_is_told(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await yard.client.get("/api/agents")).json()["problems"] == []
    monkeypatch.setattr(plug_ins, "_loaded", plug_ins.PlugIns(problems={"oats": "oats:AGENT cannot be loaded"}))
    told = (await yard.client.get("/api/agents")).json()["problems"]
    assert told == [{"name": "oats", "message": "oats:AGENT cannot be loaded"}]
    schema = (await yard.client.get("/api/openapi.json")).json()["components"]["schemas"]["AgentList"]
    assert "problems" in schema["properties"] and "plug_in_problems" not in schema["properties"]
