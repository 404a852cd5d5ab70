"""Terminals over HTTP: opened, looked at, typed into, ended, removed; and what is wrong with a request is told."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.conftest import Yard, yard_at
from waiting import until


async def session_of(yard: Yard) -> str:
    live = await yard.ostler.session("script", folder=str(yard.folder))
    return (await live.keep()).id


async def opened(yard: Yard, argv: list[str], **fields: Any) -> dict[str, Any]:
    session = fields.pop("session", None) or await session_of(yard)
    made = await yard.client.post("/api/terminals", json={"session": session, "argv": argv, **fields})
    assert made.status_code == 201, made.text
    return dict(made.json())


async def shows(yard: Yard, terminal: str, text: str) -> dict[str, Any]:
    """The snapshot, once a row has this text."""

    async def look() -> dict[str, Any] | None:
        seen = (await yard.client.get(f"/api/terminals/{terminal}/snapshot")).json()
        return dict(seen) if any(text in row for row in seen["text"]) else None

    return dict(await until(look))


async def ended(yard: Yard, terminal: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        row = (await yard.client.get(f"/api/terminals/{terminal}")).json()
        return dict(row) if row["state"] == "ended" else None

    return dict(await until(look))


async def send(yard: Yard, terminal: str, what: str, **body: Any) -> httpx.Response:
    return await yard.client.post(f"/api/terminals/{terminal}/{what}", json=body)


async def test_a_terminal_is_opened_listed_and_found(yard: Yard) -> None:
    session = await session_of(yard)
    first = await opened(yard, ["cat"], session=session, cols=100, rows=30, name="mine", primary=True)
    assert first["state"] == "live" and first["argv"] == ["cat"] and first["session"] == session
    assert (first["cols"], first["rows"], first["name"], first["typing"]) == (100, 30, "mine", True)
    second = await opened(yard, ["true"], session=session)
    await ended(yard, second["id"])
    listed = (await yard.client.get("/api/terminals", params={"session": session})).json()["items"]
    assert [row["id"] for row in listed] == [second["id"], first["id"]]
    live = (await yard.client.get("/api/terminals", params={"live": "true"})).json()["items"]
    assert [row["id"] for row in live] == [first["id"]]
    assert (await yard.client.get(f"/api/terminals/{first['id']}")).json()["id"] == first["id"]


async def test_the_environment_and_the_folder_are_those_that_were_given(yard: Yard) -> None:
    (yard.folder / "below").mkdir()
    row = await opened(
        yard, ["sh", "-c", "echo $GREETING; pwd"], env={"GREETING": "good day"}, folder=str(yard.folder / "below")
    )
    await ended(yard, row["id"])
    text = await yard.client.get(f"/api/terminals/{row['id']}/text")
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.text.splitlines() == ["good day", str(yard.folder / "below")]
    cut = await yard.client.get(f"/api/terminals/{row['id']}/text", params={"limit": 6})
    assert len(cut.text) <= 6 and text.text.rstrip().endswith(cut.text.rstrip())


async def test_a_snapshot_has_names_for_everything(yard: Yard) -> None:
    row = await opened(
        yard, ["printf", r"\033]2;a title\033\\\033[1;31mred\033[0m plain\033[?25l\033[?2004h\033]9;4;1;40\033\\"]
    )
    seen = await shows(yard, row["id"], "red plain")
    assert (seen["cols"], seen["rows"], seen["title"], seen["scrollback"]) == (120, 30, "a title", 0)
    assert seen["text"][0] == "red plain" and "\x1b[" in seen["styled"][0]
    assert seen["cursor"]["x"] == 9 and seen["cursor"]["y"] == 0 and not seen["cursor"]["visible"]
    assert seen["modes"] == {"alternate": False, "bracketed_paste": True, "mouse": "off", "focus": False}
    assert seen["progress"] == {"state": "set", "percent": 40}
    assert "plain" in seen["vt"] and seen["offset"] > 0


async def test_the_history_comes_when_it_is_asked_for(yard: Yard) -> None:
    row = await opened(yard, ["seq", "1000", "1100"])
    await ended(yard, row["id"])
    short = (await yard.client.get(f"/api/terminals/{row['id']}/snapshot")).json()
    long = (await yard.client.get(f"/api/terminals/{row['id']}/snapshot", params={"history": "true"})).json()
    assert "1001" not in short["vt"] and "1001" in long["vt"]
    assert short["text"] == long["text"] and long["scrollback"] > 70


async def test_what_is_typed_arrives_and_only_from_who_holds_the_keyboard(yard: Yard) -> None:
    row = await opened(yard, ["cat"])
    refused = await send(yard, row["id"], "input", message={"kind": "text", "text": "x"})
    assert (refused.status_code, refused.json()["kind"]) == (403, "denied")
    assert "must take the keyboard before typing" in refused.json()["detail"]
    taken = await send(yard, row["id"], "input", message={"kind": "text", "text": "one\n"}, take=True)
    assert (taken.status_code, taken.content) == (204, b"")
    assert (await send(yard, row["id"], "input", message={"kind": "paste", "text": "two"})).status_code == 204
    assert (await send(yard, row["id"], "input", message={"kind": "key", "key": {"name": "Enter"}})).status_code == 204
    await shows(yard, row["id"], "two")
    async with yard.as_("type") as other:
        path = f"/api/terminals/{row['id']}"
        assert (await other.post(f"{path}/input", json={"message": {"kind": "text", "text": "y"}})).status_code == 403
        assert (await other.post(f"{path}/lease", json={"action": "take"})).status_code == 204
        body = {"message": {"kind": "control", "name": "eof"}}
        assert (await other.post(f"{path}/input", json=body)).status_code == 204
    row = await ended(yard, row["id"])
    assert row["exit"] == {"code": 0}
    late = await send(yard, row["id"], "input", message={"kind": "text", "text": "z"})
    assert late.status_code in (404, 409, 422), late.text


async def test_two_windows_of_one_person_are_two(yard: Yard) -> None:
    row = await opened(yard, ["cat"])
    path = f"/api/terminals/{row['id']}"
    take, message = {"action": "take"}, {"message": {"kind": "text", "text": "x"}}
    assert (await yard.client.post(f"{path}/lease?viewer=window0001", json=take)).status_code == 204
    assert (await yard.client.post(f"{path}/input?viewer=window0002", json=message)).status_code == 403
    assert (await yard.client.post(f"{path}/input?viewer=window0001", json=message)).status_code == 204
    wrong = await yard.client.post(f"{path}/lease?viewer=no", json=take)
    assert (wrong.status_code, wrong.json()["kind"]) == (400, "bad_request")


async def test_a_size_is_given_while_nobody_else_holds_the_keyboard(yard: Yard) -> None:
    row = await opened(yard, ["cat"])
    assert (await send(yard, row["id"], "resize", cols=90, rows=20)).status_code == 204
    seen = (await yard.client.get(f"/api/terminals/{row['id']}/snapshot")).json()
    assert (seen["cols"], seen["rows"]) == (90, 20)
    for cols, rows in ((0, 0), (-1, 24), (10**6, 10**6)):
        wrong = await send(yard, row["id"], "resize", cols=cols, rows=rows)
        assert (wrong.status_code, wrong.json()["kind"]) == (400, "bad_request"), (cols, rows)


async def test_a_killed_one_stays_and_a_released_one_goes(yard: Yard) -> None:
    row = await opened(yard, ["sh", "-c", "echo here; sleep 1000"])
    path = f"/api/terminals/{row['id']}"
    await shows(yard, row["id"], "here")
    assert (await yard.client.post(f"{path}/kill")).status_code == 204
    assert (await ended(yard, row["id"]))["exit"] is not None
    await shows(yard, row["id"], "here")
    recording = Path(row["recording"])
    assert recording.exists()
    assert (await yard.client.delete(path)).status_code == 204
    assert (await yard.client.get(path)).status_code == 404
    assert not recording.exists()


async def test_a_signal_is_sent_and_the_program_may_go_on(yard: Yard) -> None:
    script = "trap 'echo hung up' HUP; echo up; while :; do sleep 0.05; done"
    row = await opened(yard, ["bash", "-c", script])
    path = f"/api/terminals/{row['id']}/kill"
    await shows(yard, row["id"], "up")
    assert (await yard.client.post(path, params={"signal": "HUP"})).status_code == 204
    await shows(yard, row["id"], "hung up")
    wrong = await yard.client.post(path, params={"signal": "STOP"})
    assert (wrong.status_code, wrong.json()["kind"]) == (400, "bad_request")
    assert (await yard.client.post(path, params={"signal": "KILL"})).status_code == 204
    assert (await ended(yard, row["id"]))["exit"] == {"signal": 9}


async def test_the_screen_at_a_time_of_the_recording(yard: Yard) -> None:
    row = await opened(yard, ["sh", "-c", "echo one; read x; printf '\\033[2J\\033[Htwo'; read y"])
    path = f"/api/terminals/{row['id']}"
    await shows(yard, row["id"], "one")
    assert (await send(yard, row["id"], "lease", action="take")).status_code == 204
    assert (await send(yard, row["id"], "input", message={"kind": "text", "text": "x\n"})).status_code == 204
    await shows(yard, row["id"], "two")
    assert (await yard.client.post(f"{path}/kill")).status_code == 204
    events = [json.loads(line) for line in (await yard.client.get(f"{path}/recording")).text.splitlines()[1:]]
    first = next(at for at, kind, data in events if kind == "o" and "one" in data)
    for at, wanted in ((first, "one"), (10_000, "two")):
        seen = await yard.client.get(f"{path}/snapshot", params={"at": at})
        assert (seen.status_code, seen.json()["text"][0]) == (200, wanted)
    for wrong in ("-1", "soon", "nan"):
        answer = await yard.client.get(f"{path}/snapshot", params={"at": wrong})
        assert (answer.status_code, answer.json()["kind"]) == (400, "bad_request"), wrong


async def test_the_recording_is_a_file_to_keep(yard: Yard) -> None:
    row = await opened(yard, ["echo", "recorded"])
    await ended(yard, row["id"])
    got = await yard.client.get(f"/api/terminals/{row['id']}/recording")
    assert got.headers["content-type"].startswith("application/x-asciicast")
    assert got.headers["content-disposition"] == f"attachment; filename*=utf-8''{row['id']}.cast"
    header, *events = map(json.loads, got.text.splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, 120, 30)
    assert "recorded" in "".join(event[2] for event in events if event[1] == "o")
    Path(row["recording"]).unlink()
    assert (await yard.client.get(f"/api/terminals/{row['id']}/recording")).json()["kind"] == "not_found"


OPEN = {"session": "", "argv": ["true"]}


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        ({"argv": ["no-such-program"]}, 424, "missing"),
        ({"argv": ["./plain"]}, 424, "missing"),
        ({"argv": []}, 400, "bad_request"),
        ({"argv": [""]}, 400, "bad_request"),
        ({"argv": "true"}, 400, "bad_request"),
        ({"argv": ["true", 1]}, 400, "bad_request"),
        ({"session": "nobody"}, 404, "not_found"),
        ({"folder": "/no/such/folder"}, 404, "not_found"),
        ({"cols": 0, "rows": 0}, 400, "bad_request"),
        ({"cols": 10**6, "rows": 10**6}, 400, "bad_request"),
        ({"cols": 10**30}, 400, "bad_request"),
        ({"cols": "wide"}, 400, "bad_request"),
        ({"name": "a\nb"}, 400, "bad_request"),
        ({"env": {"A": 1}}, 400, "bad_request"),
        ({"env": {"A=B": "x"}}, 400, "bad_request"),
        ({"env": {"A": "\0"}}, 400, "bad_request"),
        ({"color": "red"}, 400, "bad_request"),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
async def test_what_cannot_be_opened_is_told_and_leaves_nothing(
    yard: Yard, change: dict[str, Any], status: int, kind: str
) -> None:
    (yard.folder / "plain").write_text("not to be run")
    body = {**OPEN, "session": await session_of(yard), **change}
    answer = await yard.client.post("/api/terminals", json=body)
    assert (answer.status_code, answer.json()["kind"]) == (status, kind), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await yard.client.get("/api/terminals")).json()["items"] == []


async def test_there_is_one_of_a_name_and_a_limit_to_all(yard: Yard) -> None:
    session = await session_of(yard)
    body = {"session": session, "argv": ["cat"], "name": "one"}
    assert (await yard.client.post("/api/terminals", json=body)).status_code == 201
    twice = await yard.client.post("/api/terminals", json=body)
    assert (twice.status_code, twice.json()["kind"]) == (409, "exists")
    for _ in range(9):
        assert (await yard.client.post("/api/terminals", json={"session": session, "argv": ["cat"]})).status_code == 201
    one_more = await yard.client.post("/api/terminals", json={"session": session, "argv": ["cat"]})
    assert (one_more.status_code, one_more.json()["kind"]) == (429, "too_many")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/snapshot"),
        ("GET", "/text"),
        ("GET", "/recording"),
        ("POST", "/input"),
        ("POST", "/resize"),
        ("POST", "/lease"),
        ("POST", "/kill"),
        ("DELETE", ""),
    ],
)
async def test_an_unknown_terminal_is_not_found(yard: Yard, method: str, path: str) -> None:
    bodies: dict[str, Any] = {
        "/input": {"message": {"kind": "text", "text": "x"}},
        "/resize": {"cols": 80, "rows": 24},
        "/lease": {"action": "take"},
    }
    for unknown in ("t-none", "%20", "x" * 3000):
        answer = await yard.client.request(method, f"/api/terminals/{unknown}{path}", json=bodies.get(path))
        assert (answer.status_code, answer.json()["kind"]) == (404, "not_found"), unknown


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/input", {"message": {"kind": "dance"}}),
        ("/input", {"message": {"kind": "text"}}),
        ("/input", {"message": {"kind": "text", "text": "\x1b[A"}}),
        ("/input", {"message": {"kind": "key", "key": {"name": "NoSuchKey"}}}),
        ("/input", {"message": {"kind": "raw", "data": "%%%"}}),
        ("/input", {"message": {"kind": "text", "text": "x"}, "by": "me"}),
        ("/input", []),
        ("/input", None),
        ("/resize", {"cols": 80}),
        ("/resize", {"cols": 80, "rows": 24, "depth": 3}),
        ("/lease", {"action": "steal"}),
    ],
    ids=lambda value: json.dumps(value)[:50],
)
async def test_a_wrong_body_is_a_bad_request(yard: Yard, path: str, body: Any) -> None:
    row = await opened(yard, ["cat"])
    assert (await send(yard, row["id"], "lease", action="take")).status_code == 204
    answer = await yard.client.post(f"/api/terminals/{row['id']}{path}", json=body)
    assert (answer.status_code, answer.json()["kind"]) == (400, "bad_request"), answer.text


async def test_rights_decide(yard: Yard) -> None:
    row = await opened(yard, ["cat"])
    path = f"/api/terminals/{row['id']}"
    async with yard.as_("view") as viewer:
        for what in ("", "/snapshot", "/text"):
            assert (await viewer.get(path + what)).status_code == 200
        assert (
            await viewer.post("/api/terminals", json={"session": row["session"], "argv": ["true"]})
        ).status_code == 403
        assert (await viewer.post(f"{path}/lease", json={"action": "take"})).status_code == 403
        assert (await viewer.post(f"{path}/kill")).status_code == 403
    async with yard.as_("type") as typist:
        assert (await typist.delete(path)).status_code == 403
        assert (await typist.post(f"{path}/kill")).status_code == 204
    await ended(yard, row["id"])


async def test_where_programs_are_listed_no_other_is_run(tmp_path: Path) -> None:
    async with yard_at(tmp_path, terminal_commands=frozenset({"true", "echo"})) as yard:
        session = await session_of(yard)
        await opened(yard, ["echo", "x"], session=session)
        answer = await yard.client.post("/api/terminals", json={"session": session, "argv": ["sh", "-c", "true"]})
        assert (answer.status_code, answer.json()["kind"]) == (403, "denied")
        assert answer.json()["hint"] == "Allowed: echo, true"


async def test_a_recording_that_still_grows_comes_whole_as_it_is_then(yard: Yard) -> None:
    row = await opened(yard, ["sh", "-c", "while :; do seq 100000 101000; done"])

    async def has_grown() -> bool:
        got = await yard.client.get(f"/api/terminals/{row['id']}/recording")
        assert got.status_code == 200
        lines = got.text.splitlines()
        assert all(isinstance(json.loads(line), dict | list) for line in lines)
        return len(lines) > 5

    for _ in range(5):
        await until(has_grown)


async def test_a_prompt_its_output_and_the_end(yard: Yard) -> None:
    row = await opened(yard, ["/bin/sh", "-c", "read -r name; echo hello $name; read -r more"])
    assert (row["cols"], row["rows"]) == (120, 30)
    id = row["id"]
    sent = await send(yard, id, "prompt", text="Ana")
    assert sent.status_code == 200, sent.text
    assert sent.json()["stages"] == ["accepted", "echoed", "submitted"]
    await shows(yard, id, "hello Ana")
    since = {"since": sent.json()["offset"]}
    assert (await yard.client.get(f"/api/terminals/{id}/text", params=since)).text.split() == ["Ana", "hello", "Ana"]
    late = await yard.client.get(f"/api/terminals/{id}/wait", params={"limit": 0.01})
    assert (late.status_code, late.json()["kind"]) == (504, "timed_out")
    assert (await yard.client.post(f"/api/terminals/{id}/kill", params={"signal": "KILL"})).status_code == 204
    over = await yard.client.get(f"/api/terminals/{id}/wait", params={"limit": 60})
    assert (over.status_code, over.json()["state"], over.json()["exit"]["signal"]) == (200, "ended", 9)
    assert (await send(yard, id, "prompt", text="Bea")).status_code == 404


async def test_an_agents_own_screen_is_opened_without_a_turn(yard: Yard) -> None:
    session = await session_of(yard)
    made = await yard.client.post(f"/api/sessions/{session}/tui", json={"cols": 100})
    assert made.status_code == 201, made.text
    assert (made.json()["name"], made.json()["cols"], made.json()["rows"]) == ("script", 100, 30)
    await shows(yard, made.json()["id"], "Type your message")
    assert (await yard.client.get(f"/api/sessions/{session}/turns")).json()["items"] == []
