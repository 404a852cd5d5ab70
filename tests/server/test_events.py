"""A session's journal over HTTP: pages, and a stream without gap or duplicate, whoever writes or stops reading."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ostler import supervise
from ostler.errors import OstlerError
from ostler.model import EVENT_DECODER, EVENT_ENCODER, Text
from ostler.server import live
from prefork import start_ostler_here
from server.conftest import Yard, yard_at
from server.streamed import listening
from server.test_sessions import make, run
from waiting import until


def wire(yard: Yard, session: str) -> list[dict[str, Any]]:
    """The journal as the store has it, as it must come."""
    return [msgspec.json.decode(EVENT_ENCODER.encode(event)) for event in yard.ostler.events(session)]


async def write(yard: Yard, session: str, count: int, text: str = "x") -> None:
    """Events of no turn, as an owner would append them."""
    first = yard.ostler.store.last_seq(session) + 1
    texts = [Text(seq=seq, at=time.time(), turn="t", text=text) for seq in range(first, first + count)]
    for n in range(0, count, 500):
        await yard.ostler.store.append(session, texts[n : n + 500])


async def test_pages(yard: Yard) -> None:
    session = (await make(yard, name="barn"))["id"]
    assert (await yard.client.get(f"/api/sessions/{session}/events")).json() == {"items": [], "last": 0}
    await run(yard, session, "[[say:hello]]")
    whole = (await yard.client.get("/api/sessions/barn/events")).json()
    assert whole["items"] == wire(yard, session) and whole["last"] == len(whole["items"])
    assert [EVENT_DECODER.decode(msgspec.json.encode(item)) for item in whole["items"]] == yard.ostler.events(session)
    paged: list[Any] = []
    last = 0
    while (page := (await yard.client.get(f"/api/sessions/{session}/events?after={last}&limit=2")).json())["items"]:
        assert len(page["items"]) <= 2
        paged, last = paged + page["items"], page["last"]
    assert paged == whole["items"] and page == {"items": [], "last": last}


async def test_pages_from_the_end_backwards(yard: Yard) -> None:
    session = (await make(yard))["id"]
    url = f"/api/sessions/{session}/events"
    assert (await yard.client.get(f"{url}?before={(1 << 53) - 1}")).json() == {"items": [], "last": 0}
    await write(yard, session, 1300)
    before, seen = (1 << 53) - 1, []
    while items := (await yard.client.get(f"{url}?before={before}&limit=600")).json()["items"]:
        seen.append([item["seq"] for item in items])
        before = items[0]["seq"]
    assert seen == [list(range(701, 1301)), list(range(101, 701)), list(range(1, 101))]
    await write(yard, session, 30, "long " * 200_000)
    newest = (await yard.client.get(f"{url}?before=2000&limit=1000")).json()
    assert 10 < len(newest["items"]) < 30 and newest["last"] == newest["items"][-1]["seq"] == 1330
    stream = {"accept": "text/event-stream"}
    for bad, headers in (("before=9&after=1", {}), ("before=9", stream), ("before=9", {"last-event-id": "1"})):
        answer = await yard.client.get(f"{url}?{bad}", headers=headers)
        assert (answer.status_code, answer.json()["kind"]) == (400, "bad_request"), bad


async def test_pages_are_bounded(yard: Yard) -> None:
    session = (await make(yard))["id"]
    await write(yard, session, 10_200)
    url = f"/api/sessions/{session}/events"
    assert len((await yard.client.get(url)).json()["items"]) == 1000
    page = (await yard.client.get(f"{url}?limit=10000&after=100")).json()
    assert [item["seq"] for item in page["items"]] == list(range(101, 10_101)) and page["last"] == 10_100
    await write(yard, session, 30, "long " * 200_000)
    page = (await yard.client.get(f"{url}?limit=1000&after=10200")).json()
    assert 10 < len(page["items"]) < 30, "long events make a shorter page"
    assert page["last"] == page["items"][-1]["seq"]
    for bad in ("after=-1", "after=x", f"after={1 << 53}", f"after={1 << 70}", "limit=0", "limit=10001", "limit=1.5"):
        answer = await yard.client.get(f"{url}?{bad}")
        assert (answer.status_code, answer.json()["kind"]) == (400, "bad_request"), bad
    assert (await yard.client.get(f"{url}?after={(1 << 53) - 1}")).json()["items"] == []
    assert (await yard.client.get("/api/sessions/nobody/events")).status_code == 404


async def test_a_turn_as_it_happens(yard: Yard) -> None:
    session = (await make(yard))["id"]
    async with listening(yard.client, f"/api/sessions/{session}/events") as listener:
        await run(yard, session, "[[say:hello]] [[tool:Bash]]")
        await listener.until(lambda told: told and told[-1].kind == "ended")
    assert [told.data for told in listener.told] == wire(yard, session)
    assert [told.id for told in listener.told] == [told.data["seq"] for told in listener.told]
    assert [told.kind for told in listener.told] == [told.data["kind"] for told in listener.told]


async def test_what_a_shell_runs_is_seen(yard: Yard) -> None:
    made = await make(yard, name="shared")
    async with listening(yard.client, "/api/sessions/shared/events") as listener:
        process = await start_ostler_here(
            ["run", "--session", "shared", "[[say:from a shell]]", "--quiet"],
            cwd=yard.folder,
            env={**yard.ostler.setup.environ},
            stdout=asyncio.subprocess.PIPE,
        )
        await listener.until(lambda told: told and told[-1].kind == "ended")
        await process.communicate()
    assert "from a shell" in [data["text"] for data in listener.of("text")]
    assert [told.data for told in listener.told] == wire(yard, made["id"])


async def test_a_stream_goes_on_where_another_was_cut_off(yard: Yard) -> None:
    session = (await make(yard))["id"]
    total = 700 + 40 * 25
    await write(yard, session, 700)
    writing = asyncio.create_task(_keep_writing(yard, session, 40))
    seen: list[int] = []
    while seen[-1:] != [total]:
        headers = {"last_event_id": str(seen[-1])} if seen else {}
        async with listening(yard.client, f"/api/sessions/{session}/events?after=0", **headers) as listener:
            await listener.until(lambda told: len(told) >= 150 or (told and told[-1].id == total))
            seen += [told.id or 0 for told in listener.told]
    await writing
    assert seen == list(range(1, total + 1))


async def _keep_writing(yard: Yard, session: str, times: int) -> None:
    for _ in range(times):
        await write(yard, session, 25)
        await asyncio.sleep(0.005)


async def test_bad_places_to_go_on_from(yard: Yard) -> None:
    session = (await make(yard))["id"]
    url = f"/api/sessions/{session}/events"
    for bad in ("x", "-1", str(1 << 53), "9" * 30):
        answer = await yard.client.get(url, headers={"accept": "text/event-stream", "last-event-id": bad})
        assert (answer.status_code, answer.json()["kind"]) == (400, "bad_request"), bad
    await write(yard, session, 3)
    async with listening(yard.client, url, last_event_id="") as listener:
        await listener.until(lambda told: len(told) == 3)
    answer = await yard.client.get("/api/sessions/nobody/events", headers={"accept": "text/event-stream"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


async def test_a_reader_that_stops_costs_little_and_loses_nothing(yard: Yard) -> None:
    session = (await make(yard))["id"]
    await write(yard, session, 1)
    read: list[int] = []
    plain = "identity"  # compressed, all of it would have room on the way
    async with listening(yard.client, f"/api/sessions/{session}/events", accept_encoding=plain) as slow:
        await slow.until(lambda told: told)
        watch = _live_of(yard).watch
        asked = watch.journal

        def counted(session: str, after: int, limit: int, size: int) -> Any:
            found = asked(session, after, limit, size)
            read.extend(seq for seq, _ in found)
            return found

        watch.journal = counted  # type: ignore[method-assign]
        for _ in range(10):
            await write(yard, session, 200, "y" * 10_000)
        async with listening(yard.client, f"/api/sessions/{session}/events?after=2000") as quick:
            await quick.until(lambda told: told)  # whoever reads is served meanwhile
        # 20 MB wait for it. Unread, they are in the store, not in our memory.
        assert len(read) * 10_000 < 8_000_000, "far less than what was written"
        await slow.until(lambda told: len(told) == 2001)
    assert [told.id for told in slow.told] == list(range(1, 2002))


async def test_a_removed_session_ends_its_streams(yard: Yard) -> None:
    session = (await make(yard))["id"]
    async with listening(yard.client, f"/api/sessions/{session}/events") as listener:
        await write(yard, session, 1)
        await listener.until(lambda told: told)
        assert (await yard.client.delete(f"/api/sessions/{session}")).status_code == 204
        await listener.until_over()


async def test_silence_is_filled_and_the_end_of_the_server_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY", 0.05)
    async with yard_at(tmp_path) as yard:
        session = (await make(yard))["id"]
        client = yard.as_("view")
        async with listening(client, f"/api/sessions/{session}/events") as listener:
            while listener.comments < 3:
                await listener.step()
            yard.site.gateway.drop_all()
            await listener.until_over()
        assert listener.told == []
        await client.aclose()


async def test_a_store_in_trouble_is_watched_again_once_it_answers(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervise, "FIRST_PAUSE", 0.01)
    session = (await make(yard))["id"]
    watch, failures = _live_of(yard).watch, [1, 2, 3]
    version = watch.version

    def troubled() -> int:
        if failures:
            failures.pop()
            raise OstlerError("store", "the disk is full")
        return int(version())

    async with listening(yard.client, f"/api/sessions/{session}/events") as listener:
        await write(yard, session, 1)
        await listener.until(lambda told: len(told) == 1)
        watch.version = troubled
        await until(lambda: not failures)
        await write(yard, session, 1)
        await listener.until(lambda told: len(told) == 2)
    assert "watching the store failed: the disk is full" in caplog.text


@pytest.mark.parametrize("what", ["journal", "board"])
async def test_a_store_that_cannot_be_watched_is_told_instead_of_heartbeats(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A comment says that nothing has changed: nobody may say so who cannot know."""
    monkeypatch.setattr(supervise, "LASTING", 0.05)
    monkeypatch.setattr(live, "EVERY", 0.05)
    session = (await make(yard))["id"]
    path = "/api/live" if what == "board" else f"/api/sessions/{session}/events"
    watcher = _live_of(yard)
    works = watcher._look

    def broken() -> None:
        raise OstlerError("store", "the disk is failing", "Look at the disk")

    async with listening(yard.client, path) as listener:
        while listener.comments < 2:
            await listener.step()
        watcher._look = broken
        await write(yard, session, 1)  # something changes that cannot be seen
        await listener.until_over()
        assert (listener.told[-1].kind, listener.told[-1].data["detail"]) == ("trouble", "the disk is failing")
    watcher._look = works
    async with listening(yard.client, path) as listener:
        await listener.until(lambda told: any(each.kind in ("session", "text") for each in told))


async def test_a_fault_of_the_one_who_looks_is_told_without_its_words(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "LASTING", 0.0)
    monkeypatch.setattr(live, "EVERY", 0.05)
    watcher = _live_of(yard)

    def broken() -> None:
        raise KeyError("secret detail")

    async with listening(yard.client, "/api/live") as listener:
        await listener.until(lambda told: any(each.kind == "ready" for each in told))
        watcher._refresh = broken
        await listener.until_over()
    assert listener.told[-1].kind == "trouble"
    assert "secret" not in str(listener.told[-1].data) and listener.told[-1].data["kind"] == "crashed"


async def test_nobody_looks_when_nobody_watches(yard: Yard) -> None:
    session = (await make(yard))["id"]
    watcher = _live_of(yard)
    assert not watcher._looking.running
    async with listening(yard.client, f"/api/sessions/{session}/events"), listening(yard.client, "/api/live"):
        await until(lambda: watcher._looking.running and watcher._viewers == 2)
    await until(lambda: not watcher._looking.running and not watcher._viewers)
    await until(lambda: watcher._journals == {} and watcher._indexes == [])


def _live_of(yard: Yard) -> Any:
    return yard.site.live
