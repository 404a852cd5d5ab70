"""What every agent must do, each by its real CLI against the scripted model."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from ostler.agents import AGENTS as AGENTS_BY_NAME
from ostler.errors import OstlerError
from ostler.model import Ended, Limits, Text, TextDelta, ToolEnded, ToolStarted
from ostler.process import tree
from ostler.testing.answers import FINAL
from ostler.work import LiveSession
from real.yard import AGENTS, PIXEL, Yard
from waiting import until

pytestmark = [pytest.mark.parametrize("agent", AGENTS), pytest.mark.timeout(240)]

SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["answer", "n"],
    "additionalProperties": False,
}


@pytest.mark.core
async def test_a_turn_with_a_tool_call(yard: Yard) -> None:
    envelope, events = await yard.turn("[[shell:echo from-the-tool > made.txt]]", access="full")
    assert (envelope.status, envelope.outcome, envelope.error) == ("ok", "done", None)
    assert envelope.text == FINAL
    assert envelope.agent_session
    # qwen tidies its memory after the answer, on a busy machine for longer than a turn waits.
    assert envelope.exit is not None and (envelope.exit.ok or "lingered" in envelope.evidence)
    assert (yard.folder / "made.txt").read_text() == "from-the-tool\n"
    assert [c.path for c in envelope.files] == ["made.txt"]
    assert "made.txt" in Path(envelope.artifacts["diff"]).read_text()
    started = [e for e in events if isinstance(e, ToolStarted)]
    ended = [e for e in events if isinstance(e, ToolEnded)]
    assert [e.id for e in started] == [e.id for e in ended]
    assert started and all(e.ok for e in ended)
    assert [type(e) for e in events].count(Ended) == 1 and isinstance(events[-1], Ended)
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert [e.text for e in events if isinstance(e, Text)][-1] == FINAL


async def test_a_conversation_goes_on_in_another_process_in_a_fork_and_after_it_was_adopted(yard: Yard) -> None:
    async with yard.ostler() as o:
        first = await yard.session(o)
        await _collect(first, "remember the word palomino")
        assert first.last and first.last.ok, first.last
    async with yard.ostler() as o:
        second = await o.session(session=first.id)
        await _asked_again(yard, second)
        assert second.last and second.last.agent_session == first.last.agent_session
        if AGENTS_BY_NAME[yard.agent].forks:
            fork = await second.fork()
            await _asked_again(yard, fork)
            assert fork.row.agent_session not in (None, first.last.agent_session)
            await o.store.remove_session(fork.id)
        else:
            with pytest.raises(OstlerError) as caught:
                await second.fork()
            assert caught.value.kind == "unsupported"
        await o.store.remove_session(first.id)
        adopted = {row.agent_session: row for row in await o.adopt(yard.agent)}
        row = adopted[first.last.agent_session]
        assert row.folder == str(yard.folder)
        assert "palomino" in row.title or not AGENTS_BY_NAME[yard.agent].conversations  # the model names it
        await _asked_again(yard, await o.session(session=row.id))


async def test_conversations_are_found_where_a_variable_points(yard: Yard) -> None:
    agent, elsewhere = AGENTS_BY_NAME[yard.agent], yard.home.parent / "elsewhere"
    variable, stands_for = next(iter(agent.homes.items()))
    usual = stands_for or agent.conversations[0].partition("/")[0]
    (yard.home / usual).mkdir(parents=True, exist_ok=True)
    (elsewhere / usual).parent.mkdir(parents=True)
    (yard.home / usual).rename(elsewhere / usual)
    yard.env[variable] = str(elsewhere / stands_for)
    async with yard.ostler() as o:
        first = await yard.session(o)
        await _collect(first, "remember the word palomino")
        assert first.last and first.last.ok, first.last
        await o.store.remove_session(first.id)
        (row,) = await o.adopt(yard.agent)
        assert row.agent_session == first.last.agent_session
        await _asked_again(yard, await o.session(session=row.id))


async def _asked_again(yard: Yard, session: LiveSession) -> None:
    """A turn whose model is told what was said before."""
    yard.model.requests.clear()
    await _collect(session, "which word was it?")
    assert session.last and session.last.ok, session.last
    assert any("palomino" in x.text and "which word was it?" in x.text for x in yard.model.asked)


async def test_the_system_prompt_and_attached_files_reach_the_model_and_text_streams(yard: Yard) -> None:
    """Files by their content where the CLI takes them, else by their path."""
    notes, picture = yard.folder / "my notes.txt", yard.folder / "dot.png"
    notes.write_text("the horse is called Bucephalus\n")
    picture.write_bytes(PIXEL)
    envelope, events = await yard.turn(
        "which horse?",
        system="Answer like an ostler of the Golden Lion",
        attachments=[str(notes), str(picture)],
    )
    assert envelope.ok, envelope
    assert any("an ostler of the Golden Lion" in x.text for x in yard.model.asked)
    wanted = "Bucephalus" if yard.quirks.get("sends_files") else "my notes.txt"
    assert any(wanted in x.text for x in yard.model.asked), [x.user for x in yard.model.asked]
    deltas = "".join(e.text for e in events if isinstance(e, TextDelta))
    assert envelope.text == FINAL
    assert deltas == (FINAL if yard.quirks["deltas"] else "")


async def test_a_schema_gives_a_validated_object(yard: Yard) -> None:
    yard.model.scenario = "schema"
    if yard.quirks.get("schema") == "extracted":
        yard.model.rules = ((r"JSON", 'say:```json\n{"answer": "hay", "n": 3}\n```'),)
    envelope, _ = await yard.turn("answer by the schema", schema=SCHEMA)
    assert envelope.ok, envelope
    assert set(envelope.structured) == {"answer", "n"}
    assert json.loads(Path(envelope.artifacts["structured"]).read_text()) == envelope.structured


async def test_an_answer_that_never_fits_the_schema_is_invalid_output(yard: Yard) -> None:
    yard.model.rules = ((r".", "say:no object here, sorry"),)
    envelope, events = await yard.turn("answer by the schema", schema=SCHEMA)
    assert (envelope.status, envelope.error and envelope.error.kind) == ("error", "invalid_output")
    assert envelope.structured is None
    assert [getattr(e, "code", "") for e in events].count("repair") == 1


@pytest.mark.parametrize(("status", "kind"), [(401, "unauthenticated"), (429, "limited"), (500, "overloaded")])
async def test_errors_of_the_model_have_their_kind(yard: Yard, status: int, kind: str) -> None:
    yard.model.scenario = f"error:{yard.server_error if status == 500 else status}"
    envelope, _ = await yard.turn("hello", limits=Limits(retry=8.0, first_record=30.0, idle=30.0))
    assert envelope.status == "error"
    assert envelope.error and envelope.error.kind == kind, envelope


@pytest.mark.parametrize("when", ["mid-text", "mid-tool"])
async def test_cancel_leaves_nothing_running(yard: Yard, when: str) -> None:
    prompt = "[[hold]]" if when == "mid-text" else "[[shell:touch began; sleep 61.25]]"
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        task = asyncio.create_task(_collect(live, prompt))
        if when == "mid-text":
            await until(lambda: any(x.held for x in yard.model.requests))
        else:
            await until((yard.folder / "began").exists)
        assert tree.marked(o.store.next_turn(live.id))
        await live.cancel()
        events = await task
    assert live.last and (live.last.outcome, live.last.error and live.last.error.kind) == ("cancelled", "cancelled")
    assert tree.marked(live.last.turn) == []
    assert isinstance(events[-1], Ended)
    kept = [path for name in ("stdout", "stderr") if (path := live.last.artifacts.get(name))]
    assert kept and all(Path(path).stat().st_size for path in kept)


async def test_a_prompt_of_one_mebibyte(yard: Yard) -> None:
    size = yard.quirks["prompt_bytes"]
    prompt = "begin " + "x" * (size - 10) + " end"
    envelope, _ = await yard.turn(prompt)
    assert envelope.ok, envelope
    assert any("x" * 100_000 in x.text and "begin " in x.text for x in yard.model.asked)


@pytest.mark.parametrize("prompt", ["--version", "-", "--help", "@README.md", "/exit", "!ls", "#x"])
async def test_prompts_are_literal(yard: Yard, prompt: str) -> None:
    envelope, _ = await yard.turn(prompt)
    assert envelope.ok, envelope
    assert yard.model.asked, "no request reached the model"
    wanted = yard.quirks.get("sent_as", {}).get(prompt, prompt)
    users = [x.user for x in yard.model.asked]
    assert any(wanted in user.split("\n") for user in users), users  # copilot puts words of its own around it
    assert all("# A project" not in x.text for x in yard.model.asked)


@pytest.mark.parametrize("tool", ["write", "shell"])
@pytest.mark.core
async def test_read_refuses_a_write_where_the_users_settings_allow_all(yard: Yard, permissive: bool, tool: str) -> None:
    prompt = "[[write:app.py]]" if tool == "write" else "[[shell:echo x > app.py]]"
    before = _listing(yard.folder)
    await yard.turn(prompt, access="read")
    assert _listing(yard.folder) == before
    assert not (yard.home / "app.py").exists()
    assert yard.model.asked


async def test_write_allows_an_edit_in_the_folder(yard: Yard) -> None:
    envelope, _ = await yard.turn("[[write:app.py]]", access="write")
    assert envelope.ok, envelope
    assert [(c.path, c.change) for c in envelope.files] == [("app.py", "add")]


async def test_sigkill_of_ostler_leaves_no_process(yard: Yard) -> None:
    sleep = f"sleep 61.{os.getpid()}"  # another worker may run this test with another agent
    process = yard.cli("run", yard.agent, f"[[shell:touch began; {sleep}]]", "--access", "full", "--json")
    try:
        await until((yard.folder / "began").exists)
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.wait)
        await until(lambda: not _alive(sleep) and not _alive(str(yard.home)))
    finally:
        process.kill()
        process.communicate()
    async with yard.ostler() as o:
        assert [row.state for row in o.sessions()] == ["idle"]
        turn = o.store.turns(o.sessions()[0].id)[0]
        assert turn.envelope and (turn.envelope.outcome, turn.envelope.status) == ("crashed", "error")


async def _collect(live, prompt):
    return [event async for event in live.run(prompt)]


def _listing(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and ".git" not in p.parts
    }


def _alive(text: str) -> list[str]:
    """Command lines of living processes that contain a text."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if text in line and state != "Z" and int(pid) != os.getpid():
            found.append(line)
    return found


async def test_the_doctor_asks_it_online(yard: Yard) -> None:
    async with yard.ostler() as o:
        (well,) = await o.doctor([yard.agent], online=True)
        assert well.online is not None and well.online.ok, well
        assert well.login == "yes" and well.login_command
        assert well.sandbox in ("", "works"), well
        assert any("Answer with the single word ok" in x.text for x in yard.model.asked)
        yard.model.scenario = "error:401"
        (void,) = await o.doctor([yard.agent], online=True)
        assert void.online is not None and not void.online.ok, void
        assert void.login == "no" and void.online.text.startswith("unauthenticated: "), void
        assert o.sessions() == []
