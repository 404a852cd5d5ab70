"""Commands that an agent has ostler run: each a real terminal, with exactly the answers that ACP asks for."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from needs import needs
from ostler.agents.dialog import Call, CallName
from ostler.errors import OstlerError
from ostler.model import AnyEvent, TerminalClosed, TerminalOpened, Turn, Wall
from ostler.process import tree
from ostler.store import Redactor
from ostler.terminal.lease import Author
from ostler.terminal.viewer_protocol import Type
from ostler.work import Ostler
from ostler.work.dialogs.call_terminals import CallTerminals
from ostler.work.dialogs.calls import Calls
from ostler.work.sessions.rows import new_session_row
from ostler.work.walls import Enclosure
from waiting import until
from work.scripted import Stable

ANNA = Author("Anna", "person", "anna:window1")


class Client:
    """Ostler as the client of an agent, within one turn of one session."""

    def __init__(self, o: Ostler, turn: Turn) -> None:
        self.ostler, self.turn = o, turn
        self.events: list[AnyEvent] = []
        self.terminals = CallTerminals(o.terminal_context, lambda: o.terminals, turn.session)
        self.terminals.begin(turn, self._add, Redactor())
        self.calls = Calls(turn, self.terminals)

    @classmethod
    async def of(cls, o: Ostler, folder: Path, **fields: Any) -> "Client":
        row = new_session_row(o.store, o.settings, agent="script", folder=str(folder))
        await o.store.add_session(row)
        wishes = {"access": "full", **fields}
        return cls(o, Turn(id=f"{row.id}-1", session=row.id, agent="script", prompt="x", folder=str(folder), **wishes))

    async def _add(self, events: list[AnyEvent]) -> None:
        self.events += events

    async def ask(self, name: CallName, id: str = "", **params: Any) -> dict[str, Any]:
        return await self.calls.serve(Call("call:1", name, {**params, **({"terminalId": id} if id else {})}))

    async def start(self, command: str, *args: str, **params: Any) -> str:
        return str((await self.ask("terminal_create", command=command, args=list(args), **params))["terminalId"])

    async def sh(self, script: str, **params: Any) -> str:
        return await self.start("sh", "-c", script, **params)

    async def ran(self, script: str, **params: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """How it ended, and what it said."""
        id = await self.sh(script, **params)
        return await self.ask("terminal_wait", id), await self.ask("terminal_output", id)

    async def said(self, id: str, text: str) -> None:
        async def look() -> bool:
            return text in (await self.ask("terminal_output", id))["output"]

        await until(look)

    async def refused(self, name: CallName, id: str = "", **params: Any) -> OstlerError:
        with pytest.raises(OstlerError) as caught:
            await self.ask(name, id, **params)
        return caught.value


@needs("landlock")
async def test_behind_a_wall_write_runs_what_the_wall_allows(ostler: Ostler, stable: Stable) -> None:
    scratch, outside = stable.home / "scratch", stable.home / "outside"
    scratch.mkdir()
    wall = Wall(writable=(str(stable.folder), str(scratch)))
    walled = Enclosure(wall=wall, scratch=str(scratch), env={"TMPDIR": str(scratch)})
    for access in ("write", "read"):
        client = await Client.of(ostler, stable.folder, access=access)
        client.terminals.begin(client.turn, client._add, Redactor(), walled)
        if access == "read":
            assert (await client.refused("terminal_create", command="touch", args=["x"])).kind == "denied"
            continue
        ended, said = await client.ran(f"echo x > inside; echo x > $TMPDIR/t; echo x > {outside}", cwd=str(stable.home))
        assert ended != {"exitCode": 0} and not outside.exists() and (scratch / "t").exists()
        ended, said = await client.ran("echo x > inside && tty")
        assert ended == {"exitCode": 0} and said["output"].startswith("/dev/pts/")
    assert (stable.folder / "inside").exists() and not (stable.home / "inside").exists()


@pytest.fixture
async def ostler(stable: Stable) -> AsyncIterator[Ostler]:
    async with stable.ostler(OSTLER_TERMINALS="16", SOME_API_KEY="the-server-has-this-key") as o:
        yield o


@pytest.fixture
async def client(ostler: Ostler, stable: Stable) -> AsyncIterator[Client]:
    made = await Client.of(ostler, stable.folder)
    yield made
    await made.terminals.close()


# -- how it ended ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 0", {"exitCode": 0}),
        ("exit 42", {"exitCode": 42}),
        ("kill -TERM $$", {"signal": "SIGTERM"}),
        ("ulimit -c 0; kill -SEGV $$", {"signal": "SIGSEGV"}),
    ],
)
async def test_an_exit_is_a_code_or_a_signal(client: Client, script: str, status: dict[str, Any]) -> None:
    ended, output = await client.ran(f"echo said; {script}")
    assert ended == status
    assert output == {"output": "said\n", "truncated": False, "exitStatus": status}


async def test_while_it_runs_there_is_no_status(client: Client) -> None:
    id = await client.sh("echo up; exec sleep 100")
    await client.said(id, "up")
    assert "exitStatus" not in await client.ask("terminal_output", id)


async def test_output_and_wait_after_a_kill(client: Client) -> None:
    id = await client.sh("echo up; exec sleep 100")
    await client.said(id, "up")
    assert await client.ask("terminal_kill", id) == {}
    assert await client.ask("terminal_kill", id) == {}
    assert await client.ask("terminal_wait", id) == {"signal": "SIGTERM"}
    output = await client.ask("terminal_output", id)
    assert output["output"].startswith("up\n")
    assert output["exitStatus"] == {"signal": "SIGTERM"}


async def test_a_tree_that_ignores_term_is_killed(client: Client) -> None:
    id = await client.sh("trap '' TERM HUP INT; sh -c 'sleep 1000' & sh -c 'sleep 1001' & echo up; wait; sleep 1002")
    await client.said(id, "up")
    assert tree.marked(id)
    await client.ask("terminal_kill", id)
    assert await client.ask("terminal_wait", id) == {"signal": "SIGKILL"}
    assert tree.marked(id) == []


async def test_a_kill_ends_one_command_and_no_other(client: Client) -> None:
    first, second = await client.sh("echo up; sleep 1000"), await client.sh("echo up; sleep 1000")
    await client.said(first, "up")
    await client.said(second, "up")
    await client.ask("terminal_kill", first)
    assert client.ostler.terminals.get(second).state == "live"
    assert tree.marked(second)


async def test_a_grandchild_that_holds_the_terminal_holds_nobody_up(client: Client) -> None:
    async with asyncio.timeout(60):
        ended, output = await client.ran("sleep 1000 & echo done")
    assert ended == {"exitCode": 0}
    assert output["output"] == "done\n"


# -- what it said ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "text", "truncated"),
    [
        (13, "ab😀cd😀\n", False),
        (12, "b😀cd😀\n", True),
        (10, "cd😀\n", True),
        (9, "cd😀\n", True),
        (8, "cd😀\n", True),
        (7, "cd😀\n", True),
        (4, "\n", True),
        (0, "", True),
        (None, "ab😀cd😀\n", False),
    ],
)
async def test_a_limit_cuts_between_characters(client: Client, limit: int, text: str, truncated: bool) -> None:
    _, output = await client.ran("printf 'ab😀cd😀\\n'", outputByteLimit=limit)
    assert (output["output"], output["truncated"]) == (text, truncated)
    assert len(text.encode()) <= (limit if limit is not None else 100)


async def test_a_limit_of_nothing_of_nothing(client: Client) -> None:
    _, output = await client.ran("true", outputByteLimit=0)
    assert (output["output"], output["truncated"]) == ("", True)


async def test_bytes_that_are_no_text(client: Client) -> None:
    _, output = await client.ran(r"printf 'a\377\300b\000c\r\nd\n'")
    assert output["output"] == "a��b\0c\r\nd\n"  # the terminal makes \r\n of each \n; what was \r\n stays so


async def test_all_of_a_large_output_is_there_when_the_wait_ends(client: Client) -> None:
    _, output = await client.ran("seq 1 100000; echo the end")
    assert output["output"].endswith("99999\n100000\nthe end\n")


async def test_secrets_of_the_server_stay_with_it(client: Client) -> None:
    _, output = await client.ran("env", env=[{"name": "MINE", "value": "of the agent"}])
    said = output["output"].splitlines()
    own = "OSTLER_TURN="  # the mark by which its processes are found
    assert not [line for line in said if line.startswith(("SOME_API_KEY", "OSTLER_")) and not line.startswith(own)]
    assert {"MINE=of the agent", "PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat", "GIT_EDITOR=:"} <= set(said)
    assert "GIT_MERGE_AUTOEDIT=no" in said


async def test_git_log_waits_in_no_pager(client: Client, stable: Stable) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q"], cwd=stable.folder, check=True)
    for number in range(60):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", f"change {number}"], cwd=stable.folder, check=True)
    async with asyncio.timeout(60):
        id = await client.start("git", "log", "--oneline")
        assert await client.ask("terminal_wait", id) == {"exitCode": 0}
    assert "change 0" in (await client.ask("terminal_output", id))["output"]


# -- what is run ----------------------------------------------------------------------------------------------


async def test_a_shell_line_without_arguments_goes_through_a_shell(client: Client) -> None:
    id = str((await client.ask("terminal_create", command="echo one && echo two | tr o 0"))["terminalId"])
    await client.ask("terminal_wait", id)
    assert (await client.ask("terminal_output", id))["output"] == "one\ntw0\n"


async def test_arguments_see_no_shell(client: Client) -> None:
    id = await client.start("echo", "$HOME; `id`", "a  b")
    await client.ask("terminal_wait", id)
    assert (await client.ask("terminal_output", id))["output"] == "$HOME; `id` a  b\n"


async def test_a_program_with_a_space_in_its_name(client: Client, stable: Stable) -> None:
    program = stable.folder / "my program"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    id = str((await client.ask("terminal_create", command=str(program)))["terminalId"])
    await client.ask("terminal_wait", id)
    assert (await client.ask("terminal_output", id))["output"] == "ran\n"


async def test_it_runs_where_it_is_told_to(client: Client, stable: Stable, tmp_path: Path) -> None:
    assert (await client.ran("pwd"))[1]["output"] == f"{stable.folder}\n"
    assert (await client.ran("pwd", cwd=str(tmp_path)))[1]["output"] == f"{tmp_path}\n"


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({}, "bad_request"),
        ({"command": " "}, "bad_request"),
        ({"command": 7}, "bad_request"),
        ({"command": "echo", "args": [1]}, "bad_request"),
        ({"command": "echo", "args": ["a\0b"]}, "bad_request"),
        ({"command": "echo", "args": ["\ud800"]}, "bad_request"),
        ({"command": "echo", "cwd": "here"}, "bad_request"),
        ({"command": "echo", "cwd": "/no/such/folder"}, "not_found"),
        ({"command": "echo", "env": [{"name": "A=B", "value": ""}]}, "bad_request"),
        ({"command": "echo", "env": ["A"]}, "bad_request"),
        ({"command": "echo", "outputByteLimit": -1}, "bad_request"),
        ({"command": "echo", "outputByteLimit": True}, "bad_request"),
        ({"command": "no-such-program-here"}, "missing"),
    ],
)
async def test_what_cannot_be_run_is_told(client: Client, params: dict[str, Any], kind: str) -> None:
    assert (await client.refused("terminal_create", **params)).kind == kind
    assert client.ostler.terminals.list(client.turn.session) == []


@pytest.mark.parametrize(("access", "needed"), [("read", "write"), ("write", "full")])
async def test_less_than_full_access_runs_nothing(ostler: Ostler, stable: Stable, access: str, needed: str) -> None:
    client = await Client.of(ostler, stable.folder, access=access)
    refused = await client.refused("terminal_create", command="touch", args=["made"])
    assert (refused.kind, refused.hint) == ("denied", f"Run it with --access {needed}")
    assert os.listdir(stable.folder) == []


# -- ids ------------------------------------------------------------------------------------------------------


async def test_a_release_ends_the_program_and_answers_who_waits(client: Client) -> None:
    id = await client.sh("echo up; exec sleep 1000")
    await client.said(id, "up")
    waits = asyncio.create_task(client.ask("terminal_wait", id))
    await asyncio.sleep(0)
    assert await client.ask("terminal_release", id) == {}
    assert await waits == {"signal": "SIGTERM"}
    assert await client.ask("terminal_release", id) == {}
    calls: tuple[CallName, ...] = ("terminal_output", "terminal_wait", "terminal_kill")
    assert [(await client.refused(call, id)).kind for call in calls] == ["not_found"] * 3


async def test_people_still_see_what_was_released(client: Client) -> None:
    id = await client.sh("echo to be seen")
    await client.ask("terminal_wait", id)
    await client.ask("terminal_release", id)
    await until(lambda: client.ostler.terminals.get(id).state == "ended")
    assert "to be seen" in await client.ostler.terminals.text(id)
    assert (await client.ostler.terminals.snapshot(id)).text[0].rstrip() == "to be seen"


async def test_an_id_of_another_session_means_nothing(client: Client, stable: Stable) -> None:
    other = await Client.of(client.ostler, stable.folder)
    id = await client.sh("echo up; exec sleep 1000")
    calls: tuple[CallName, ...] = ("terminal_output", "terminal_wait", "terminal_kill", "terminal_release")
    assert [(await other.refused(call, id)).kind for call in calls] == ["not_found"] * 4
    assert (await other.refused("terminal_output", "t-nope")).kind == "not_found"
    assert client.ostler.terminals.get(id).state == "live"


async def test_sixteen_at_once_and_not_one_more(client: Client) -> None:
    ids = await asyncio.gather(*(client.sh(f"echo number {n}; read x; exit {n}") for n in range(16)))
    refused = await client.refused("terminal_create", command="true")
    assert refused.kind == "too_many"
    assert "16 live terminals" in refused.message
    for id in ids:
        await client.said(id, "number")
        await client.ostler.terminals.input(id, ANNA, Type(text="\r"), take=True)
    ends = await asyncio.gather(*(client.ask("terminal_wait", id) for id in ids))
    assert ends == [{"exitCode": n} for n in range(16)]


# -- the turn and the dialog ----------------------------------------------------------------------------------


async def test_the_journal_has_its_beginning_and_its_end(client: Client) -> None:
    id = str((await client.ask("terminal_create", command="exit 3 # really"))["terminalId"])
    await client.ask("terminal_wait", id)
    assert client.events == [
        TerminalOpened(terminal=id, title="exit 3 # really"),
        TerminalClosed(terminal=id, exit_code=3),
    ]
    row = client.ostler.terminals.get(id)
    assert (row.source, row.turn, row.typing) == ("pty", client.turn.id, True)


async def test_an_interrupt_ends_what_the_turn_runs(client: Client) -> None:
    id = await client.sh("echo up; exec sleep 1000")
    await client.said(id, "up")
    await client.terminals.stop()
    assert await client.ask("terminal_wait", id) == {"signal": "SIGTERM"}


async def test_it_goes_on_after_its_turn_and_ends_with_the_dialog(client: Client) -> None:
    id = await client.sh("echo up; exec sleep 1000")
    await client.said(id, "up")
    await client.terminals.pause()
    assert (await client.ask("terminal_output", id))["output"] == "up\n"
    assert (await client.refused("terminal_create", command="true")).kind == "bad_request"
    await client.terminals.close()
    assert tree.marked(id) == []
    assert client.events == [TerminalOpened(terminal=id, title="sh -c 'echo up; exec sleep 1000'")]


# -- terminals of the agent's own -----------------------------------------------------------------------------


async def show(client: Client, what: str, **params: Any) -> None:
    await client.terminals.show({"what": what, **params})


async def test_a_terminal_of_the_agents_own_is_shown(client: Client) -> None:
    await show(client, "terminal_info", terminal_id="toolu_1", cwd="/somewhere")
    await show(client, "terminal_output", terminal_id="toolu_1", data="one\ntwo\r\n")
    await show(client, "terminal_output_delta", terminal_id="toolu_1", data="three")
    (row,) = client.ostler.terminals.list(client.turn.session, live=True)
    assert (row.source, row.typing, row.turn) == ("acp", False, client.turn.id)
    screen = await client.ostler.terminals.snapshot(row.id)
    assert [line.rstrip() for line in screen.text[:3]] == ["one", "two", "three"]
    with pytest.raises(OstlerError, match="read-only"):
        await client.ostler.terminals.input(row.id, ANNA, Type(text="x"), take=True)
    await show(client, "terminal_exit", terminal_id="toolu_1", exit_code=5, signal=None)
    await show(client, "terminal_output", terminal_id="toolu_1", data="too late")
    ended = client.ostler.terminals.get(row.id)
    assert (ended.state, ended.exit and ended.exit.code) == ("ended", 5)
    assert await client.ostler.terminals.text(row.id) == "one\ntwo\nthree"
    assert [type(event) for event in client.events] == [TerminalOpened, TerminalClosed]


async def test_what_is_still_shown_ends_with_the_turn(client: Client) -> None:
    await show(client, "terminal_output", terminal_id="a", data="half")
    await client.terminals.pause()
    assert client.ostler.terminals.list(client.turn.session, live=True) == []


# -- the tool call that shows a terminal ------------------------------------------------------------------------


async def link(client: Client, id: Any, tool: str) -> None:
    await show(client, "terminal_link", terminal_id=id, tool=tool)


@pytest.mark.parametrize("released", [False, True])
async def test_a_command_is_told_again_with_its_tool_call_once(client: Client, released: bool) -> None:
    id = str((await client.ask("terminal_create", command="exit 3 # really"))["terminalId"])
    await client.ask("terminal_wait", id)
    if released:
        await client.ask("terminal_release", id)
    for tool in ("call 1", "call 1", "call 2"):
        await link(client, id, tool)
    assert client.events == [
        TerminalOpened(terminal=id, title="exit 3 # really"),
        TerminalClosed(terminal=id, exit_code=3),
        TerminalOpened(terminal=id, title="exit 3 # really", tool="call 1"),
    ]


async def test_only_ids_of_this_dialog_are_linked(client: Client, stable: Stable) -> None:
    other = await Client.of(client.ostler, stable.folder)
    id = await client.sh("true")
    for foreign in (id, "t-nope", "", 7, None, ["a"]):
        await link(other, foreign, "call 1")
    assert other.events == []
    assert client.ostler.terminals.list(other.turn.session) == []
    await link(client, id, "mine")
    assert [event for event in client.events if getattr(event, "tool", "")] == [
        TerminalOpened(terminal=id, title="sh -c true", tool="mine")
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([("terminal_info", "call 1")], ["call 1"]),
        ([("terminal_link", "call 1"), ("terminal_output", "call 2")], ["call 1"]),
        ([("terminal_output", ""), ("terminal_link", "call 1"), ("terminal_link", "call 2")], ["", "call 1"]),
        ([("terminal_output", "call 1"), ("terminal_link", "call 2")], ["call 1"]),
    ],
)
async def test_a_terminal_of_the_agents_own_is_its_tool_calls(
    client: Client, words: list[tuple[str, str]], told: list[str]
) -> None:
    for what, tool in words:
        await show(client, what, terminal_id="toolu_1", data="x", tool=tool)
    (row,) = client.ostler.terminals.list(client.turn.session)
    assert client.events == [TerminalOpened(terminal=row.id, title=row.name, tool=tool) for tool in told]


async def test_a_link_is_of_one_turn(client: Client) -> None:
    await link(client, "toolu_1", "call 1")
    await client.terminals.pause()
    client.terminals.begin(client.turn, client._add, Redactor())
    await show(client, "terminal_output", terminal_id="toolu_1", data="x", tool="")
    assert [event.tool for event in client.events if isinstance(event, TerminalOpened)] == [""]


@pytest.mark.parametrize("params", [{}, {"terminal_id": 7}, {"terminal_id": ""}, {"terminal_id": ["a"]}])
async def test_nonsense_shows_nothing(client: Client, params: dict[str, Any]) -> None:
    await show(client, "terminal_output", data="x", **params)
    assert client.ostler.terminals.list(client.turn.session) == []


async def test_a_command_that_has_just_begun_ends_with_its_turn(ostler: Ostler, stable: Stable) -> None:
    """The turn is interrupted after its command was started, and before that is in the journal."""
    client = await Client.of(ostler, stable.folder)
    written = asyncio.Event()

    async def slow(events: list[AnyEvent]) -> None:
        if any(isinstance(event, TerminalOpened) for event in events):
            await written.wait()
        client.events += events

    client.terminals.begin(client.turn, slow, Redactor())
    starting = asyncio.create_task(client.start("sleep", "600"))
    await until(lambda: ostler.terminals.list(client.turn.session, live=True) != [])
    await until(lambda: client.terminals._known != {})
    stopping = asyncio.create_task(client.terminals.stop())
    await until(lambda: ostler.terminals.list(client.turn.session, live=True) == [])
    written.set()
    id = await starting
    await stopping
    assert client.events == [
        TerminalOpened(terminal=id, title="sleep 600"),
        TerminalClosed(terminal=id, exit_code=None),
    ]


async def test_a_command_that_is_being_started_ends_with_its_turn(
    ostler: Ostler, stable: Stable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn is interrupted while its command runs already, and nobody has its id yet."""
    client = await Client.of(ostler, stable.folder)
    opened, stopped = asyncio.Event(), asyncio.Event()
    open_program = ostler.terminals.open_program

    async def slow(*args: Any) -> Any:
        program = await open_program(*args)
        opened.set()
        await stopped.wait()
        return program

    monkeypatch.setattr(ostler.terminals, "open_program", slow)
    starting = asyncio.create_task(client.start("sleep", "600"))
    await opened.wait()
    await client.terminals.stop()
    stopped.set()
    id = await starting
    await until(lambda: ostler.terminals.list(client.turn.session, live=True) == [])
    assert client.events == [
        TerminalOpened(terminal=id, title="sleep 600"),
        TerminalClosed(terminal=id, exit_code=None),
    ]
    with pytest.raises(OstlerError) as caught:
        await client.start("sleep", "600")
    assert (caught.value.kind, caught.value.message) == ("cancelled", "the turn was interrupted")
