"""Modes over HTTP, and what the agent offers in the journal."""

from server.conftest import Yard
from server.test_sessions import make
from server.test_turns import ended, start


async def test_a_mode_is_set_and_what_is_offered_is_told(yard: Yard) -> None:
    session = (await make(yard))["id"]
    answer = await start(yard, session, prompt="[[echo:mode]]", transport="dialog", mode="plan")
    assert answer.status_code == 202, answer.text
    turn = answer.json()["id"]
    await ended(yard, turn)
    assert (await yard.client.get(f"/api/turns/{turn}/envelope")).json()["text"] == "plan"
    events = (await yard.client.get(f"/api/sessions/{session}/events")).json()["items"]
    (offered,) = [event for event in events if event["kind"] == "offered"]
    assert (offered["quiet"], offered["mode"]) == (True, "plan")
    assert {"id": "plan", "description": "Only plans"} in offered["modes"]


async def test_modes_that_cannot_be(yard: Yard) -> None:
    session = (await make(yard))["id"]
    for fields, status, kind in (
        ({"mode": "plan"}, 422, "unsupported"),
        ({"mode": "yolo", "transport": "dialog"}, 400, "bad_request"),
        ({"mode": "", "transport": "dialog"}, 400, "bad_request"),
    ):
        answer = await start(yard, session, prompt="[[say:x]]", **fields)
        assert (answer.status_code, answer.json()["kind"]) == (status, kind), answer.text
