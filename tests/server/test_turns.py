"""Turns over HTTP: started once, queued, cancelled, and what they left."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from ostler.model import Envelope
from ostler.server import routes_turns
from prefork import start_ostler_here
from server.conftest import Yard, yard_at
from server.test_sessions import make, run
from waiting import until

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


async def start(yard: Yard, session: str, key: str | None = None, **fields: Any) -> httpx.Response:
    headers = {"idempotency-key": key} if key is not None else {}
    return await yard.client.post(f"/api/sessions/{session}/turns", json={"prompt": "hi", **fields}, headers=headers)


async def ended(yard: Yard, turn: str) -> dict[str, Any]:
    await until(lambda: yard.ostler.find_turn(turn).state == "ended")
    return dict((await yard.client.get(f"/api/turns/{turn}")).json())


async def test_a_turn_from_its_start_to_its_envelope(yard: Yard) -> None:
    session = (await make(yard))["id"]
    answer = await start(yard, session, prompt="[[say:hello there]]", model="big", access="write")
    assert answer.status_code == 202
    told = answer.json()
    assert told == {
        "id": told["id"],
        "session": session,
        "number": 1,
        "state": "starting",
        "created_at": told["created_at"],
        "ended_at": None,
        "prompt": "[[say:hello there]]",
        "access": "write",
        "model": "big",
        "transport": "pipe",
        "attachments": [],
        "outcome": None,
        "error": None,
        "summary": "",
        "usage": None,
        "cost_usd": None,
        "duration_ms": None,
        "artifacts": [],
        "evidence": [],
        "planted": [],
    }
    found = await ended(yard, told["id"])
    envelope = (await yard.client.get(f"/api/turns/{told['id']}/envelope")).json()
    assert msgspec.convert(envelope, Envelope) == yard.ostler.find_turn(told["id"]).envelope
    assert (found["state"], found["outcome"], found["summary"]) == ("ended", "done", "hello there")
    assert found["artifacts"] == sorted(envelope["artifacts"]) and found["evidence"] == envelope["evidence"]
    assert found["usage"] == envelope["usage"] and found["duration_ms"] == envelope["duration_ms"]
    listed = await yard.client.get(f"/api/sessions/{session}/turns")
    assert listed.json() == {"items": [found]}
    view = (await yard.client.get(f"/api/sessions/{session}")).json()
    assert (view["turns"], view["title"], view["turn"]) == (1, "[[say:hello there]]", found)


async def test_the_same_key_starts_one_turn(yard: Yard) -> None:
    session = (await make(yard))["id"]
    answers = await asyncio.gather(*(start(yard, session, "key-1", prompt="[[say:once]]") for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [202]
    assert len({answer.json()["id"] for answer in answers}) == 1
    await ended(yard, answers[0].json()["id"])
    again = await start(yard, session, "key-1", prompt="[[say:once]]")
    assert (again.status_code, again.json()["outcome"]) == (200, "done")
    other = await start(yard, session, "key-1", prompt="[[say:twice]]")
    assert (other.status_code, other.json()["kind"]) == (409, "exists")
    fresh = await start(yard, session, "key-2", prompt="[[say:once]]")
    assert fresh.status_code == 202
    assert len(yard.ostler.store.turns(session)) == 2
    for bad in ("", "x" * 201, "with blank", "ü".encode("latin-1")):
        answer = await yard.client.post(
            f"/api/sessions/{session}/turns", json={"prompt": "x"}, headers={"idempotency-key": bad}
        )
        assert (answer.status_code, answer.json()["kind"]) == (400, "bad_request"), bad
    # A key belongs to its session.
    other_session = (await make(yard))["id"]
    assert (await start(yard, other_session, "key-1", prompt="[[say:else]]")).status_code == 202


async def test_the_key_holds_over_a_restart_and_over_two_servers(tmp_path: Path) -> None:
    async with yard_at(tmp_path) as yard:
        session = (await make(yard))["id"]
        async with yard_at(tmp_path) as other:
            answers = await asyncio.gather(
                *(start(each, session, "k", prompt="[[say:once]]") for each in (yard, other) for _ in range(5))
            )
            turns = {answer.json()["id"] for answer in answers}
            assert len(turns) == 1 and len(yard.ostler.store.turns(session)) == 1
            await ended(yard, turns.copy().pop())
    async with yard_at(tmp_path) as yard:
        again = await start(yard, session, "k", prompt="[[say:once]]")
        assert (again.status_code, again.json()["id"]) == (200, turns.pop())


async def test_busy_queued_and_cancelled(yard: Yard) -> None:
    session = (await make(yard))["id"]
    first = (await start(yard, session, prompt="[[say:…]] [[never_end]]")).json()["id"]
    refused = await start(yard, session, prompt="no")
    assert (refused.status_code, refused.json()["kind"]) == (409, "busy") and refused.json()["hint"]
    queued = await start(yard, session, prompt="[[say:after]]", wait=True)
    assert (queued.status_code, queued.json()["state"]) == (202, "queued")
    last = (await start(yard, session, prompt="[[say:last]]", wait=True)).json()["id"]
    early = await yard.client.get(f"/api/turns/{first}/envelope")
    assert (early.status_code, early.json()["kind"]) == (404, "not_found")
    assert (await yard.client.get(f"/api/turns/{first}/artifacts")).json() == {"items": []}

    async with yard.as_("view") as viewer, yard.as_("type") as typist:
        assert (await viewer.post(f"/api/turns/{first}/cancel", json={})).status_code == 403
        assert (await typist.post(f"/api/turns/{last}/cancel", json={})).status_code == 202
        assert (await ended(yard, last))["outcome"] == "cancelled"
        assert (await typist.post(f"/api/turns/{first}/cancel")).status_code == 202, "a body is not needed"
    assert (await ended(yard, first))["outcome"] == "cancelled"
    assert (await ended(yard, queued.json()["id"]))["outcome"] == "done"
    again = await yard.client.post(f"/api/turns/{first}/cancel", json={})
    assert (again.status_code, again.json()["outcome"]) == (202, "cancelled")
    assert (await yard.client.post("/api/turns/nobody/cancel", json={})).status_code == 404


async def test_the_line_is_not_endless(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_turns, "IN_LINE", 2)
    session = (await make(yard))["id"]
    await start(yard, session, prompt="[[never_end]]")
    statuses = [(await start(yard, session, wait=True)).status_code for _ in range(3)]
    assert statuses == [202, 202, 429]


async def test_a_turn_of_another_process_is_cancelled_too(yard: Yard) -> None:
    process = await start_ostler_here(
        ["run", "script", "[[say:here]] [[never_end]]", "--json"],
        cwd=yard.folder,
        env={**yard.ostler.setup.environ},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        rows = await until(lambda: [row for row in yard.ostler.store.running_turns() if row.state == "running"])
        assert (await yard.client.post(f"/api/turns/{rows[0].id}/cancel", json={})).status_code == 202
        assert (await ended(yard, rows[0].id))["outcome"] == "cancelled"
        assert await asyncio.wait_for(process.wait(), 30) == 130
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.communicate()


NO_TURNS: list[tuple[dict[str, Any], int, str]] = [
    ({"prompt": ""}, 400, "bad_request"),
    ({"prompt": " \n"}, 400, "bad_request"),
    ({"prompt": "a\0b"}, 400, "bad_request"),
    ({"prompt": 5}, 400, "bad_request"),
    ({"prompt": None}, 400, "bad_request"),
    ({"access": "root"}, 400, "bad_request"),
    ({"model": ""}, 400, "bad_request"),
    ({"model": "a\nb"}, 400, "bad_request"),
    ({"wait": "yes"}, 400, "bad_request"),
    ({"unknown": 1}, 400, "bad_request"),
    ({"schema": []}, 400, "bad_request"),
    ({"schema": {"type": "nonsense"}}, 400, "bad_request"),
    ({"schema": {"$ref": "http://127.0.0.1:1/x"}}, 400, "bad_request"),
    ({"limits": {"idle": 0}}, 400, "bad_request"),
    ({"limits": {"idle": -1}}, 400, "bad_request"),
    ({"limits": {"linger": None}}, 400, "bad_request"),
    ({"limits": {"idle": "5"}}, 400, "bad_request"),
    ({"limits": {"more": 1}}, 400, "bad_request"),
    ({"attachments": [{}]}, 400, "bad_request"),
    ({"attachments": [{"path": "a", "upload": "b"}]}, 400, "bad_request"),
    ({"attachments": [{"name": "a"}]}, 400, "bad_request"),
    ({"attachments": [{"name": "a/b", "content": "x"}]}, 400, "bad_request"),
    ({"attachments": [{"path": "notes.txt", "type": "image/png"}]}, 400, "bad_request"),
    ({"attachments": [{"path": "notes.txt", "type": "picture"}]}, 400, "bad_request"),
    ({"attachments": [{"path": "notes.txt", "type": "t/" + "x" * 99}]}, 400, "bad_request"),
    ({"attachments": [{"name": "a", "content": "b", "type": "image/png"}]}, 400, "bad_request"),
    ({"attachments": [{"upload": "nothing"}]}, 404, "not_found"),
    ({"attachments": [{"upload": "../../etc/passwd"}]}, 404, "not_found"),
    ({"attachments": [{"path": "missing.txt"}]}, 404, "not_found"),
    ({"attachments": [{"path": "/etc/passwd"}]}, 403, "denied"),
    ({"attachments": [{"path": "../outside.txt"}]}, 403, "denied"),
    ({"attachments": [{"path": "link"}]}, 403, "denied"),
    ({"attachments": [{"path": "pipe"}]}, 403, "denied"),
    ({"attachments": [{"path": "."}]}, 400, "bad_request"),
    ({"attachments": [{"path": "a\0"}]}, 400, "bad_request"),
    ({"attachments": [{"name": "a", "content": "b"}] * 101}, 400, "bad_request"),
]


async def test_what_cannot_be_a_turn_leaves_nothing(yard: Yard) -> None:
    (yard.folder.parent / "outside.txt").write_text("no")
    (yard.folder / "link").symlink_to(yard.folder.parent / "outside.txt")
    (yard.folder / "notes.txt").write_text("notes")
    os.mkfifo(yard.folder / "pipe")
    session = (await make(yard))["id"]
    for fields, status, kind in NO_TURNS:
        answer = await start(yard, session, **fields)
        assert (answer.status_code, answer.json()["kind"]) == (status, kind), (fields, answer.text)
        assert answer.json()["detail"] and answer.headers["content-type"] == "application/problem+json"
    assert (await start(yard, "nobody")).status_code == 404
    assert yard.ostler.store.turns(session) == []


async def test_an_agent_that_is_not_installed(tmp_path: Path) -> None:
    async with yard_at(tmp_path, env={"OSTLER_ONLY": "", "PATH": str(tmp_path)}) as yard:
        session = (await make(yard, agent="gemini"))["id"]
        answer = await start(yard, session)
        assert (answer.status_code, answer.json()["kind"]) == (424, "missing")
        assert "npm" in answer.json()["hint"]


async def test_attachments_limits_and_schema(yard: Yard) -> None:
    (yard.folder / "sub").mkdir()
    (yard.folder / "sub" / "notes.txt").write_text("by path")
    sent = await yard.client.put(
        "/api/uploads/photo.png", content=PNG, headers={"content-type": "application/octet-stream"}
    )
    session = (await make(yard))["id"]
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    answer = await start(
        yard,
        session,
        prompt="how many?",
        attachments=[
            {"upload": sent.json()["upload"]},
            {"path": "sub/notes.txt"},
            {"name": "inline.txt", "content": "inline"},
        ],
        limits={"idle": 99, "total": None},
        schema=schema,
    )
    assert answer.status_code == 202, answer.text
    turn = yard.ostler.find_turn(answer.json()["id"]).turn
    assert [os.path.basename(a.path) or a.name for a in turn.attachments] == ["photo.png", "notes.txt", "inline.txt"]
    assert (turn.limits.idle, turn.limits.total, turn.limits.first_record) == (99, None, 90)
    assert (await ended(yard, turn.id))["outcome"] == "done"
    structured = (await yard.client.get(f"/api/turns/{turn.id}/envelope")).json()["structured"]
    assert list(structured) == ["n"] and isinstance(structured["n"], int)


async def test_the_type_of_an_attachment(yard: Yard) -> None:
    (yard.folder / "scan").write_bytes(b"\0\0\0\x18ftypheic")  # the first bytes of HEIC are not known
    sent = await yard.client.put("/api/uploads/shot", content=PNG, headers={"content-type": "application/octet-stream"})
    session = (await make(yard))["id"]
    given = [
        {"path": "scan", "type": "image/heic"},
        {"upload": sent.json()["upload"], "type": "image/png"},
        {"name": "inline", "content": "a,b", "type": "text/csv"},
    ]
    answer = await start(yard, session, prompt="[[echo:attach]]", attachments=given)
    assert answer.status_code == 202, answer.text
    turn = yard.ostler.find_turn(answer.json()["id"]).turn
    assert [a.type for a in turn.attachments] == ["image/heic", "image/png", "text/csv"]
    assert (await ended(yard, turn.id))["outcome"] == "done"


async def test_artifacts_are_downloads_by_name_alone(yard: Yard) -> None:
    session = (await make(yard))["id"]
    turn = (await run(yard, session, "[[say:hüh]]"))["id"]
    url = f"/api/turns/{turn}/artifacts"
    listed = (await yard.client.get(url)).json()["items"]
    paths = yard.ostler.find_turn(turn).envelope.artifacts
    assert {item["name"]: item["size"] for item in listed} == {
        name: Path(path).stat().st_size for name, path in paths.items()
    }
    for item in listed:
        got = await yard.client.get(f"{url}/{item['name']}")
        assert got.content == Path(paths[item["name"]]).read_bytes()
        assert got.headers["content-type"] == item["media_type"] == "text/plain; charset=utf-8"
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["content-disposition"].startswith("attachment; filename*=utf-8''")
        assert int(got.headers["content-length"]) == item["size"]
    for name in ("nothing", "prompt.txt", "..%2Fprompt", "%2e%2e%2f%2e%2e%2fostler.db", "a" * 3000, "%00"):
        lost = await yard.client.get(f"{url}/{name}")
        assert (lost.status_code, lost.json()["kind"]) == (404, "not_found"), name


async def test_an_artifact_that_was_replaced_by_a_link_is_not_followed(yard: Yard, tmp_path: Path) -> None:
    session = (await make(yard))["id"]
    turn = (await run(yard, session))["id"]
    path = Path(yard.ostler.find_turn(turn).envelope.artifacts["prompt"])
    path.unlink()
    url = f"/api/turns/{turn}/artifacts"
    assert (await yard.client.get(f"{url}/prompt")).status_code == 404
    (tmp_path / "secret").write_text("secret")
    path.symlink_to(tmp_path / "secret")
    denied = await yard.client.get(f"{url}/prompt")
    assert (denied.status_code, denied.json()["kind"]) == (403, "denied")
    assert "prompt" not in [item["name"] for item in (await yard.client.get(url)).json()["items"]]


async def test_what_the_server_started_ends_with_it(tmp_path: Path) -> None:
    async with yard_at(tmp_path) as yard:
        session = (await make(yard))["id"]
        running = (await start(yard, session, prompt="[[say:…]] [[never_end]]")).json()["id"]
        queued = (await start(yard, session, wait=True)).json()["id"]
    async with yard_at(tmp_path) as yard:
        for turn in (running, queued):
            assert (await yard.client.get(f"/api/turns/{turn}")).json()["outcome"] == "cancelled"
        assert (await yard.client.get(f"/api/sessions/{session}")).json()["state"] == "idle"


async def test_turns_that_are_not_there(yard: Yard) -> None:
    for path in ("", "/envelope", "/artifacts", "/artifacts/prompt"):
        answer = await yard.client.get(f"/api/turns/nobody{path}")
        assert (answer.status_code, answer.json()["kind"]) == (404, "not_found")


async def test_servers_by_the_names_that_the_settings_have(tmp_path: Path) -> None:
    config = tmp_path / "home" / ".config" / "ostler" / "config.toml"
    config.parent.mkdir(parents=True)
    argv = [sys.executable, "-P", "-m", "ostler.testing.agent", "--acp"]
    config.write_text(f'[acp]\nmine = {json.dumps(argv)}\n[mcp.db]\ncommand = "{sys.executable}"\n')
    (tmp_path / ".git").mkdir()  # what other programs leave in the temporary folder lies above the project else
    async with yard_at(tmp_path, env={"OSTLER_ONLY": ""}) as yard:
        session = (await make(yard, agent="mine", access="full"))["id"]
        told = {"prompt": "[[say:hi]]", "transport": "dialog"}
        turn = (await start(yard, session, **told, mcp=["db"])).json()
        assert (await ended(yard, turn["id"]))["outcome"] == "done"
        assert [server.name for server in yard.ostler.find_turn(turn["id"]).turn.mcp] == ["db"]
        for mcp, status, kind in (
            (["bd"], 404, "not_found"),
            (["/bin/sh"], 404, "not_found"),
            ([{"name": "db", "command": "/bin/sh"}], 400, "bad_request"),
            ("db", 400, "bad_request"),
        ):
            answer = await start(yard, session, **told, mcp=mcp)
            assert (answer.status_code, answer.json()["kind"]) == (status, kind)
        answer = await start(yard, session, **told, mcp=["db"], access="write")
        assert (answer.status_code, answer.json()["kind"]) == (403, "denied")
        async with yard.as_("view") as viewer:
            answer = await viewer.post(f"/api/sessions/{session}/turns", json={**told, "mcp": ["db"]})
            assert answer.status_code == 403
