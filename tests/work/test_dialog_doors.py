"""What people and agents do wrong at the doors of a dialog: a kind, what to do about it, and nothing left behind."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import Asked, Attachment, Limits, Notice, Problem, Raw, TextDelta
from ostler.process import tree
from ostler.work import Ostler
from waiting import until
from work.acp_yard import SCRIPTED, AcpYard, pid_of, turn

CHECK = "Check its command line, and its version"
UPDATE = "Update mine or ostler"
BY_HAND = "Try its command by hand, or `ostler doctor`"

# Answers each request as it is told to, by method, and says what belongs to a turn: frames in JSON, by request.
ANSWERS = """
import json, sys
said = json.loads(sys.argv[1])
for line in sys.stdin:
    frame = json.loads(line)
    for answer in said.get(frame.get("method"), []):
        answer = {"id": frame["id"], **answer} if "result" in answer or "error" in answer else answer
        print(json.dumps({"jsonrpc": "2.0", **answer}), flush=True)
"""
CHUNK = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "fine"}}
FINE = {"method": "session/update", "params": {"sessionId": "S", "update": CHUNK}}
WELL: dict[str, list[Any]] = {
    "initialize": [{"result": {"protocolVersion": 1}}],
    "session/new": [{"result": {"sessionId": "S"}}],
    "session/prompt": [FINE, {"result": {"stopReason": "end_turn"}}],
}


def answering(**otherwise: Any) -> tuple[str, ...]:
    """An agent that does well but for these requests."""
    said = {**WELL, **{name.replace("_", "/"): answers for name, answers in otherwise.items()}}
    return (sys.executable, "-I", "-S", "-c", ANSWERS, json.dumps(said))


async def refused(o: Ostler, session: str, **options: Any) -> Problem:
    """Why a turn of the session fails; then no process of it is left, and the session is free."""
    live = await o.session(session=session)
    envelope, _ = await turn(o, live, "hello", **options)
    assert envelope.status == "error" and envelope.error is not None
    assert tree.marked(live.id) == []
    assert o.find(live.id).state == "idle"
    return envelope.error


# -- a command that is no agent ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "kind", "words", "hint"),
    [
        (("true",), "crashed", "ended with exit code 0 before it was ready", BY_HAND),
        (("sh", "-c", "echo no such option >&2; exit 2"), "crashed", "was ready: no such option", BY_HAND),
        (("sh", "-c", "echo please log in >&2; exit 1"), "unauthenticated", "please log in", BY_HAND),
        (("sh", "-c", "kill -SEGV $$"), "crashed", "signal 11", BY_HAND),
        (("sh", "-c", "read line; exit 3"), "crashed", "exit code 3", BY_HAND),
        (("sh", "-c", "echo Welcome"), "unsupported", "not an ACP agent: it printed 'Welcome'", CHECK),
        (("cat",), "unsupported", "not an ACP agent: it only echoes its input", CHECK),
        (("sleep", "1000"), "timed_out", "did not open a dialog within 0.3 s", BY_HAND),
        (("sh", "-c", "echo Welcome; exec sleep 1000"), "timed_out", "did not open a dialog", BY_HAND),
        (("sh", "-c", "while sleep 0.02; do yes no | head -50; done"), "timed_out", "did not open a dialog", BY_HAND),
        (answering(initialize=[{"result": {"protocolVersion": 2}}]), "unsupported", "version 2 of", UPDATE),
        (answering(initialize=[{"result": {}}]), "unsupported", "no version of ACP", UPDATE),
        (answering(initialize=[{"result": {"protocolVersion": "1"}}]), "unsupported", "version '1' of", UPDATE),
        (answering(initialize=[{"error": {"message": "what?"}}]), "unsupported", "(initialize): what?", CHECK),
        (answering(session_new=[{"result": {}}]), "unsupported", "named no session", CHECK),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None,
)  # fmt: skip
async def test_a_command_that_opens_no_dialog(
    tmp_path: Path, argv: tuple[str, ...], kind: str, words: str, hint: str
) -> None:
    """And once the settings are mended, the same session works."""
    yard = AcpYard(tmp_path, argv)
    async with yard.ostler() as o:
        session = (await (await yard.session(o)).keep()).id
        limits = Limits(first_record=0.3) if kind == "timed_out" else None
        error = await refused(o, session, limits=limits)
        assert (error.kind, error.hint) == (kind, hint)
        assert words in error.message
    async with yard.ostler(acp={"mine": list(SCRIPTED)}) as o:
        envelope, _ = await turn(o, await o.session(session=session), "[[say:now]]")
        assert (envelope.outcome, envelope.text) == ("done", "now")


@pytest.mark.parametrize("program", ["no-such-program-here", "/nowhere/agent", "/etc/passwd", "/", "./agent"])
async def test_a_command_that_does_not_exist(tmp_path: Path, program: str) -> None:
    yard = AcpYard(tmp_path, (program, "--acp"))
    (yard.folder / "agent").write_text("#!/bin/sh\n")
    (yard.folder / "agent").chmod(0o755)  # a program of the folder is none that was meant
    async with yard.ostler() as o:
        live = await yard.session(o)
        with pytest.raises(OstlerError) as error:
            await turn(o, live, "hello")
        assert (error.value.kind, error.value.hint) == ("missing", "Fix acp.mine in your settings")
        assert program.lstrip(".") in error.value.message
        assert o.sessions() == []


LOGIN = [{"id": "x", "name": "Log in", "description": "Run `friendly login`"}]
KEYS = [{"id": "k", "name": "Key", "type": "env_var", "vars": [{"name": "FRIENDLY_KEY"}, {"name": "FRIENDLY_ID"}]}]
REFUSED = [{"error": {"code": -32000, "message": "Authentication required"}}]


@pytest.mark.parametrize("when", ["session/new", "session/prompt"])
@pytest.mark.parametrize(
    ("methods", "hint"),
    [
        (LOGIN, "Run `friendly login`"),
        (KEYS, "Set FRIENDLY_KEY and FRIENDLY_ID"),
        ([*LOGIN, *KEYS], "Run `friendly login`; Set FRIENDLY_KEY and FRIENDLY_ID"),
        ([], "Log in to mine"),
    ],
)
async def test_an_agent_that_needs_a_login(tmp_path: Path, when: str, methods: list[Any], hint: str) -> None:
    """Whenever it says so, what it offers is told; ostler logs in nowhere by itself."""
    known = [{"result": {"protocolVersion": 1, "authMethods": methods}}]
    yard = AcpYard(tmp_path, answering(initialize=known, **{when.replace("/", "_"): REFUSED}))
    async with yard.ostler() as o:
        envelope, _ = await turn(o, await yard.session(o), "hello")
        assert envelope.error is not None
        assert (envelope.error.kind, envelope.error.hint) == ("unauthenticated", hint)


# -- a turn that runs, another conversation ---------------------------------------------------------------


async def test_a_prompt_while_one_runs_is_refused_or_waits(tmp_path: Path) -> None:
    yard = AcpYard(tmp_path)
    gate = yard.base / "gate"
    async with yard.ostler() as o:
        live = await yard.session(o)
        first = asyncio.create_task(turn(o, live, f"[[say:one]][[wait_for:{gate}]]"))
        await until(lambda: any(isinstance(e, TextDelta) for e in o.events(live.id)))
        rival = await o.session(session=live.id)
        with pytest.raises(OstlerError) as busy:
            await turn(o, rival, "[[say:two]]")
        assert (busy.value.kind, "--wait" in busy.value.hint) == ("busy", True)
        second = asyncio.create_task(turn(o, rival, "[[history]]", wait=True))
        await until(lambda: len(o.store.turns(live.id)) == 2)
        pid = pid_of(o, live)
        gate.touch()
        assert (await first)[0].text == "one"
        assert (await second)[0].text.startswith("[[say:one]]")  # the same conversation,
        assert pid_of(o, live) == pid  # in the same process


async def test_words_for_a_turn_that_takes_none(tmp_path: Path) -> None:
    """The turn goes on as if nothing had been said."""
    yard = AcpYard(tmp_path)
    gate = yard.base / "gate"
    async with yard.ostler() as o:
        live = await yard.session(o)
        running = asyncio.create_task(turn(o, live, f"[[say:one]][[wait_for:{gate}]]"))
        await until(lambda: any(isinstance(e, TextDelta) for e in o.events(live.id)))
        with pytest.raises(OstlerError) as cannot:
            await o.steer(live.id, "hurry")
        assert (cannot.value.kind, cannot.value.hint) == ("unsupported", "Queue it as the next prompt")
        gate.touch()
        envelope, events = await running
        assert (envelope.outcome, envelope.text) == ("done", "one")
        assert not any(isinstance(e, Notice) and e.code == "steered" for e in events)
        with pytest.raises(OstlerError) as late:
            await o.steer(live.id, "hurry")
        assert late.value.kind == "not_found"


@pytest.mark.parametrize(
    ("abilities", "kind", "words"),
    [({"loadSession": True}, "not_found", "has no session S"), ({}, "unsupported", "cannot resume a session")],
)
async def test_a_conversation_that_the_agent_has_no_more(
    tmp_path: Path, abilities: dict[str, Any], kind: str, words: str
) -> None:
    """The old session tells so each time, a new one works."""
    known = [{"result": {"protocolVersion": 1, "agentCapabilities": abilities}}]
    gone = [{"error": {"code": -32002, "message": "Resource not found"}}]
    yard = AcpYard(tmp_path, answering(initialize=known, session_load=gone))
    async with yard.ostler() as o:
        live = await yard.session(o)
        assert (await turn(o, live, "hello"))[0].ok
        await o.dialogs.close()
        for _ in range(2):
            error = await refused(o, live.id)
            assert (error.kind, error.hint) == (kind, "Start a new session")
            assert words in error.message
        assert (await turn(o, await yard.session(o), "hello"))[0].ok


# -- what goes with a prompt, and what comes back ---------------------------------------------------------


async def test_an_image_for_an_agent_that_takes_none(tmp_path: Path) -> None:
    """Nothing is sent, and the process takes the next turn."""
    yard = AcpYard(tmp_path, answering())
    picture = yard.folder / "a.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 20)
    async with yard.ostler() as o:
        live = await yard.session(o)
        assert (await turn(o, live, "hello"))[0].ok
        pid = pid_of(o, live)
        envelope, events = await turn(o, live, "look", attachments=(Attachment(path="a.png"),))
        assert envelope.error is not None
        assert (envelope.error.kind, envelope.error.hint) == ("unsupported", "Leave it out, or choose another agent")
        assert f"does not accept images: {picture}" in envelope.error.message
        assert not any(isinstance(e, TextDelta) for e in events)
        assert (await turn(o, live, "hello"))[0].ok
        assert pid_of(o, live) == pid


@pytest.mark.parametrize(
    "frame",
    [
        '{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"',  # the answer to the prompt
        '{"jsonrpc":"2.0", "id": "w", "method":"fs/write_text_file","params":{"content":"',
    ],
)
async def test_a_message_that_is_too_long_to_be_read(
    tmp_path: Path, frame: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that somebody waits for ends the turn at once and the process with it; the next turn has another."""
    monkeypatch.setattr("ostler.work.dialogs.live_dialog.FRAME_CAP", 1 << 20)
    agent = (
        "import json, sys\n"
        'answers = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "S"}}\n'
        "for line in sys.stdin:\n"
        "    frame = json.loads(line)\n"
        '    id, method = frame["id"], frame["method"]\n'
        '    if method in answers: print(json.dumps({"id": id, "result": answers[method]}), flush=True)\n'
        "    else: print(sys.argv[1].replace('%d', str(id)) + 'x' * (2 << 20) + '\"}}', flush=True)\n"
    )
    yard = AcpYard(tmp_path, (sys.executable, "-I", "-S", "-c", agent, frame))
    async with yard.ostler() as o:
        live = await yard.session(o)
        for _ in range(2):
            envelope, events = await turn(o, live, "hello", limits=Limits(idle=10))
            assert envelope.error is not None
            assert (envelope.error.kind, envelope.error.hint) == ("unsupported", "Ask for less at once")
            assert "too long to be read" in envelope.error.message
            assert [len(e.line) for e in events if isinstance(e, Raw)] == [1000]
            assert tree.marked(live.id) == []
            live = await yard.session(o)


async def test_what_an_ask_hides_in_its_meta_is_not_asked(tmp_path: Path) -> None:
    """The question and its answers are those of the request itself."""
    call = {"toolCallId": "c", "title": "rm -r /", "kind": "execute", "rawInput": {"command": "rm -r /"}}
    options = [{"optionId": "n", "name": "No", "kind": "reject_once"}]
    kind = {"toolCallId": "c", "title": "ls", "kind": "read", "rawInput": {"command": "ls"}}
    meta = {"sessionId": "other", "toolCall": kind, "options": [{"optionId": "y", "name": "Y", "kind": "allow_once"}]}
    request = {"sessionId": "S", "toolCall": {**call, "_meta": kind}, "options": options, "_meta": meta}
    asks = {"id": 7, "method": "session/request_permission", "params": request}
    yard = AcpYard(tmp_path, answering(session_prompt=[asks, FINE, {"result": {"stopReason": "end_turn"}}]))
    async with yard.ostler() as o:
        envelope, events = await turn(o, await yard.session(o), "hello", "")
        assert envelope.ok
        (asked,) = [e for e in events if isinstance(e, Asked)]
        assert (asked.title, asked.input) == ("rm -r /", {"command": "rm -r /"})
        assert [option.kind for option in asked.options] == ["reject_once"]
