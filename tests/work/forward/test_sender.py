"""Turns that tell a real HTTP server: well, slow, down, redirecting; and people, by commands and webhooks."""

import asyncio
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import Ended, Forwarded, Notice
from ostler.testing.clock import Clock
from ostler.work.dialogs.asks import AskAnswer
from ostler.work.forward.post import post
from waiting import until
from work.scripted import Stable, collect

TOKEN = "the-token-of-the-backend"


class Backend(http.server.ThreadingHTTPServer):
    """Keeps what it is told; `answers` says what it answers, one after the other, the last for ever."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.heard: list[tuple[str, dict[str, str], Any]] = []
        self.answers: list[Callable[[http.server.BaseHTTPRequestHandler], None]] = [taken]
        self.go_on = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def events(self) -> list[dict[str, Any]]:
        return [event for _, _, body in self.heard for event in body["events"]]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        backend = self.server
        assert isinstance(backend, Backend)
        body = self.rfile.read(int(self.headers["content-length"]))
        told = json.loads(body) if self.headers["content-type"] == "application/json" else body.decode()
        backend.heard.append((self.path, {k.lower(): v for k, v in self.headers.items()}, told))
        answer = backend.answers.pop(0) if len(backend.answers) > 1 else backend.answers[0]
        answer(self)

    def log_message(self, *args: Any) -> None: ...


def answering(status: int, body: bytes = b"", **headers: str) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


taken = answering(200, b'{"stored": true}')


def slow(handler: http.server.BaseHTTPRequestHandler) -> None:
    assert isinstance(handler.server, Backend)
    handler.server.go_on.wait(120)
    taken(handler)


def broken(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.connection.close()


@pytest.fixture
def backend() -> Iterator[Backend]:
    with Backend() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.go_on.set()
        made.shutdown()
        thread.join()


def configure(stable: Stable, text: str) -> None:
    folder = stable.home / ".config" / "ostler"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)


def forwarding(backend: Backend, **more: Any) -> str:
    known = {"url": backend.url, "token": TOKEN, "allow_private": True, **more}
    return "[forward]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in known.items())


async def test_a_backend_is_told_and_its_answer_is_kept(stable: Stable, backend: Backend) -> None:
    configure(stable, forwarding(backend))
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        events = await collect(session, "[[say:fed]]", hooks=True, wait_for="forwarded")
        assert isinstance(events[-1], Ended)
        (told,) = o.events(session.id)[len(events) :]
        assert isinstance(told, Forwarded)
        assert (told.to, told.ok, told.status, told.answer, told.tries) == (
            backend.url,
            True,
            200,
            '{"stored": true}',
            1,
        )
        assert session.last and told.turn == session.last.turn
        await until(lambda: o.store.outbox_size() == 0)  # the journal has it first
    path, headers, body = backend.heard[0]
    assert path == f"/api/sessions/{session.id}/events"
    assert headers["authorization"] == f"Bearer {TOKEN}" and headers["idempotency-key"].startswith(session.id)
    assert (body["session"], body["agent"], body["folder"]) == (session.id, "script", str(stable.folder))
    kinds = [(event["kind"], event.get("name", "")) for event in backend.events()]
    assert [name for kind, name in kinds if kind == "hook"] == [
        "SessionStart",
        "UserPromptSubmit",
        "Stop",
        "SessionEnd",
    ]
    assert kinds[-1][0] == "result"
    assert backend.events()[-1]["envelope"]["text"] == "fed"
    kept = [path for path in stable.state.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert kept == []


async def test_the_live_journal_if_wished_and_a_token_from_elsewhere(stable: Stable, backend: Backend) -> None:
    configure(stable, forwarding(backend, what=["journal"], token="", token_command=["printf", "from-a-command-it-is"]))
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        events = await collect(session, "[[say:fed]]", schema={"type": "object"}, wait_for="forwarded")
        assert [event.code for event in events if isinstance(event, Notice)] == ["repair"]  # ostler's own words, too
        assert o.events(session.id) == events  # there was no result to answer to
    assert [event["seq"] for event in backend.events()] == [event.seq for event in events]
    assert {headers["authorization"] for _, headers, _ in backend.heard} == {"Bearer from-a-command-it-is"}
    configure(stable, forwarding(backend, token="", token_env="STALL_TOKEN"))
    async with stable.ostler(STALL_TOKEN="from-a-variable-it-is") as o:
        await collect(await o.session("script", folder=str(stable.folder)), "[[say:fed]]", wait_for="forwarded")
    assert backend.heard[-1][1]["authorization"] == "Bearer from-a-variable-it-is"


async def test_a_slow_backend_holds_up_nobody(stable: Stable, backend: Backend) -> None:
    backend.answers = [slow]
    configure(stable, forwarding(backend))
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        assert isinstance((await collect(session, "[[say:one]]"))[-1], Ended)
        await until(lambda: backend.heard)
        await collect(session, "[[say:two]]")
        assert session.last and session.last.ok and o.store.outbox_size() > 0
        backend.go_on.set()
        await until(lambda: o.store.outbox_size() == 0)
        assert [event["envelope"]["text"] for event in backend.events()] == ["one", "two"]
        forwarded = [event for event in o.events(session.id) if isinstance(event, Forwarded)]
        assert {event.turn for event in forwarded} == {row.id for row in o.store.turns(session.id)}


@pytest.mark.parametrize("trouble", [answering(503), answering(429), broken])
async def test_what_fails_is_tried_again(trouble: Any, stable: Stable, backend: Backend, clock: Clock) -> None:
    backend.answers = [trouble, trouble, taken]
    configure(stable, forwarding(backend))
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:fed]]")
        assert session.last and session.last.ok
        for tries in (1, 2):
            await until(lambda tries=tries: len(backend.heard) == tries and o.store.outbox_untried() == 0)  # type: ignore[misc]
            await until(lambda: o.store.outbox_due() is not None)
            await clock.turn(120)
        await until(lambda: o.store.outbox_size() == 0)
        (told,) = [event for event in o.events(session.id) if isinstance(event, Forwarded)]
        assert (told.ok, told.tries) == (True, 3)
        keys = {headers["idempotency-key"] for _, headers, _ in backend.heard}
        assert len(keys) == 1


async def test_a_backend_that_is_down_is_given_up_in_the_end_and_never_fails_a_turn(
    stable: Stable, backend: Backend, clock: Clock
) -> None:
    configure(stable, forwarding(backend))
    backend.answers = [answering(500)]
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:fed]]")
        await until(lambda: backend.heard and o.store.outbox_untried() == 0)
        await clock.turn(2 * 86_400)
        (told,) = await until(lambda: [event for event in o.events(session.id) if isinstance(event, Forwarded)])
        assert not told.ok and "given up after 2 tries" in told.answer
        assert session.last and session.last.ok


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_no_redirect_is_followed(status: int, stable: Stable, backend: Backend) -> None:
    with Backend() as elsewhere:
        thread = threading.Thread(target=elsewhere.serve_forever)
        thread.start()
        try:
            backend.answers = [answering(status, Location=elsewhere.url)]
            configure(stable, forwarding(backend))
            async with stable.ostler() as o:
                session = await o.session("script", folder=str(stable.folder))
                await collect(session, "[[say:fed]]", wait_for="forwarded")
                (told,) = [event for event in o.events(session.id) if isinstance(event, Forwarded)]
            assert (told.ok, told.status, len(backend.heard), elsewhere.heard) == (False, status, 1, [])
        finally:
            elsewhere.shutdown()
            thread.join()


async def test_an_address_of_this_machine_has_to_be_allowed(stable: Stable, backend: Backend) -> None:
    configure(stable, forwarding(backend, allow_private=False))
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:fed]]", wait_for="forwarded")
        (told,) = [event for event in o.events(session.id) if isinstance(event, Forwarded)]
        assert not told.ok and "an address of this machine" in told.answer
        assert session.last and session.last.ok
    assert backend.heard == []
    with pytest.raises(OstlerError) as caught:
        await post(f"http://localhost:{backend.server_address[1]}/", {}, b"", allow_private=False)
    assert caught.value.kind == "denied"


async def test_a_folder_that_nobody_trusts_cannot_forward(stable: Stable, backend: Backend) -> None:
    (stable.folder / "ostler.toml").write_text(forwarding(backend) + f'[[notify]]\nurl = "{backend.url}"\n')
    async with stable.ostler() as o:
        await collect(await o.session("script", folder=str(stable.folder)), "[[say:fed]]", wait_for="forwarded")
        assert o.store.outbox_size() == 0
    assert backend.heard == []


async def test_what_was_not_sent_is_sent_by_the_next_ostler(stable: Stable, backend: Backend, clock: Clock) -> None:
    backend.answers = [answering(503), taken]
    configure(stable, forwarding(backend))
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:fed]]")
        await until(lambda: backend.heard and o.store.outbox_untried() == 0)
    await clock.turn(120)
    async with stable.ostler() as o:
        (told,) = await until(lambda: [e for e in o.events(session.id) if isinstance(e, Forwarded)])
        assert told.ok
        await until(lambda: o.store.outbox_size() == 0)  # the journal has it first


async def test_the_result_of_a_turn_whose_ostler_was_killed_is_forwarded(stable: Stable, backend: Backend) -> None:
    configure(stable, forwarding(backend))
    process = stable.cli("run", "script", "[[write:began]] [[never_end:true]]", "--access", "full")
    await until((stable.folder / "began").exists)
    process.kill()
    process.communicate()
    async with stable.ostler() as o:
        await until(lambda: [event for event in backend.events() if event["kind"] == "result"])
        (told,) = [event for event in backend.events() if event["kind"] == "result"]
        assert (told["envelope"]["outcome"], told["envelope"]["status"]) == ("crashed", "error")
        (session,) = o.sessions()
        (kept,) = await until(lambda: [e for e in o.events(session.id) if isinstance(e, Forwarded)])
        assert kept.ok and kept.turn == told["turn"]


# -- people -------------------------------------------------------------------------------------------


async def test_people_are_notified(stable: Stable, backend: Backend, tmp_path: Path) -> None:
    log = tmp_path / "told.txt"
    command = json.dumps(["sh", "-c", f"cat >> {log}; echo >> {log}"])
    configure(
        stable,
        f'[[notify]]\ncommand = {command}\n[[notify]]\non = ["asked"]\nshape = "ntfy"\n'
        f'url = "{backend.url}/topic"\nallow_private = true\n',
    )
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder), access="full")
        running = asyncio.create_task(collect(session, "[[run:touch made]] [[say:fed]]", hooks="ask"))
        (asked,) = await until(lambda: o.store.open_asks(session.id))
        await until(lambda: backend.heard)
        await o.answer(session.id, AskAnswer(ask=asked.id, option="allow"))
        await running
        await collect(session, "[[fail:crashed]]")
        await until(lambda: o.store.outbox_size() == 0)
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(each["on"], each["session"]) for each in told] == [(on, session.id) for on in ("asked", "ended", "failed")]
    ((path, headers, body),) = backend.heard
    assert (path, headers["title"], body) == ("/topic", f"script asks in {session.id}", "touch made")


async def test_a_command_is_not_run_again_since_the_webhook_of_its_entry_fails(
    stable: Stable, backend: Backend, clock: Clock, tmp_path: Path
) -> None:
    log = tmp_path / "told.txt"
    command = json.dumps(["sh", "-c", f"echo told >> {log}"])
    configure(stable, f'[[notify]]\ncommand = {command}\nurl = "{backend.url}"\nallow_private = true\n')
    backend.answers = [answering(500), taken]
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:fed]]")
        await until(lambda: o.store.outbox_size() == 1 and o.store.outbox_untried() == 0)
        await clock.turn(400)
        await until(lambda: o.store.outbox_size() == 0)
    assert len(backend.heard) == 2 and log.read_text() == "told\n"


@pytest.mark.parametrize("url", ["http://host:99999/x", "http://h:abc", "http://a..b", "http://[::1"])
async def test_a_url_that_cannot_be_is_given_up_at_once(url: str) -> None:
    with pytest.raises(OstlerError) as caught:
        await post(url, {}, b"", allow_private=True)
    assert caught.value.kind == "bad_request" and caught.value.message.startswith(url.removesuffix("/x"))


async def test_a_backend_that_is_named_no_longer_has_no_name(stable: Stable, backend: Backend, clock: Clock) -> None:
    configure(stable, forwarding(backend))
    backend.answers = [answering(500)]
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:fed]]")
        await until(lambda: backend.heard and o.store.outbox_untried() == 0)
    configure(stable, "")
    await clock.turn(400)
    async with stable.ostler() as o:
        (told,) = await until(lambda: [event for event in o.events(session.id) if isinstance(event, Forwarded)])
        assert (told.to, told.ok) == ("the backend", False)
        assert told.answer == "the settings no longer name a backend"


async def test_a_command_that_fails_is_tried_again_and_then_given_up(stable: Stable, clock: Clock) -> None:
    configure(stable, '[[notify]]\ncommand = ["false"]\n')
    async with stable.ostler() as o:
        session = await o.session("script", folder=str(stable.folder))
        await collect(session, "[[say:fed]]")
        await until(lambda: o.store.outbox_size() == 1 and o.store.outbox_untried() == 0)
        await clock.turn(4000)
        await until(lambda: o.store.outbox_size() == 0)
        assert session.last and session.last.ok
