"""The pool over HTTP: who runs, who waits in which place and why."""

from msgspec import structs

from ostler import clock
from server.conftest import Yard
from server.test_sessions import make
from server.test_turns import ended, start


async def test_the_queue_tells_places_and_reasons(yard: Yard) -> None:
    settings = yard.ostler.pool.settings
    yard.ostler.pool.settings = structs.replace(settings, pool=structs.replace(settings.pool, agents={"script": 1}))
    gate = yard.folder / "gate"
    one, two = (await make(yard))["id"], (await make(yard))["id"]
    first = (await start(yard, one, prompt=f"[[wait_for:{gate}]] [[say:done]]")).json()
    second = (await start(yard, two, prompt="[[say:hi]]", priority=3)).json()
    assert (first["state"], second["state"]) == ("starting", "queued")
    told = (await yard.client.get("/api/queue")).json()
    assert [each["turn"] for each in told["running"]] == [first["id"]]
    (waiting,) = told["waiting"]
    assert (waiting["turn"], waiting["session"], waiting["priority"]) == (second["id"], two, 3)
    assert (waiting["position"], waiting["reason"]) == (1, "script 1/1 busy")
    gate.touch()
    assert (await ended(yard, second["id"]))["outcome"] == "done"
    assert (await yard.client.get("/api/queue")).json()["waiting"] == []


async def test_an_account_that_is_parked_can_be_resumed(yard: Yard) -> None:
    await yard.ostler.store.park("script", clock.now() + 3600, "")
    session = (await make(yard))["id"]
    refused = await start(yard, session)
    assert refused.status_code == 429 and refused.json()["kind"] == "limited"
    waiting = (await start(yard, session, wait=True)).json()
    (parked,) = (await yard.client.get("/api/queue")).json()["parked"]
    assert parked["account"] == "script"
    assert (await yard.client.post("/api/queue/script/resume")).status_code == 200
    assert (await yard.client.post("/api/queue/script/resume")).status_code == 404
    assert (await ended(yard, waiting["id"]))["outcome"] == "done"
