"""`ostler chat`: keep talking with an agent in one dialog."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from ostler.access import ACCESS_ORDER
from ostler.cli import complain
from ostler.cli.asking import refuse_together, servers_of
from ostler.cli.run import asking
from ostler.cli.sessions import complete_session
from ostler.cli.turn_flags import check_turn_flags, system_of, turn_flags, turn_options
from ostler.errors import OstlerError
from ostler.model import OF_SESSION, Offer, Offered, TurnOptions

if TYPE_CHECKING:
    from ostler.cli.chat_lines import ChatInput, Lines
    from ostler.settings import Settings
    from ostler.work import LiveSession, Ostler

_HINT = "ctrl-c interrupts"
HELP = """\
/model [NAME]              use another model from the next prompt on; without a name, list them
/mode [NAME]               use another mode of the agent, within the access; without a name, list them
/access read|write|full    change the access: a new process continues the conversation
/steer TEXT                steer the running turn, if the agent supports that
/commands                  list the agent's own slash commands
/help                      show this
Alt-Enter, or \\ Enter      start a new line
/exit                      leave (also Ctrl-D, or Ctrl-C twice)
//TEXT                     send a prompt that begins with /"""

OWN = ("/access", "/commands", "/exit", "/help", "/mode", "/model", "/quit", "/steer")


@click.command(short_help="Chat with a coding agent.")
@click.argument("agent", required=False, metavar="[AGENT|MODEL|PROFILE]")
@click.option("-C", "--folder", metavar="FOLDER", help="Where the agent works (default: here).")
@click.option("-s", "--session", metavar="SESSION", shell_complete=complete_session, help="Continue this session.")
@click.option("-c", "--continue", "resume", is_flag=True, help="Continue the last session in this folder.")
@click.option("-n", "--name", metavar="NAME", help="Give the new session a name.")
@click.option("-m", "--model", metavar="MODEL", help="The model, by the agent's own name for it.")
@click.option("-a", "--access", type=click.Choice(ACCESS_ORDER), help="What it may do (default: read).")
@turn_flags
@click.option("--mcp", multiple=True, metavar="NAME|FILE", help="Give it an MCP server. May be repeated.")
@click.option("-v", "--verbose", is_flag=True, help="Show everything: whole thoughts, tool output, raw records.")
def chat(agent: str | None, verbose: bool, **options: Any) -> int:
    """Chat with a coding agent: one process serves all turns, and asks before it acts.

    Ctrl-C interrupts the turn, Ctrl-C twice leaves; Ctrl-D leaves; /help shows more. Pasted text is one
    prompt; Alt-Enter starts a new line. Where stdin is not a terminal, each of its lines is a prompt.

    \b
      ostler chat claude --access write
      ostler chat --continue
    """
    refuse_together(
        {"--session": options["session"], "--continue": options["resume"], "--name": options["name"]},
        ("--session", "--continue", "--name"),
    )
    check_turn_flags(options)
    options |= system_of(options)
    turn = structs.replace(turn_options(options), model=options["model"], access=options["access"], transport="dialog")
    from ostler.cli.turns import settings_for

    settings = settings_for(options["folder"])
    return asyncio.run(_chat(settings, agent, verbose, turn, options))


async def _chat(
    settings: "Settings", agent: str | None, verbose: bool, turn: TurnOptions, options: dict[str, Any]
) -> int:
    with _ended_by_signals() as ended_by:
        try:
            return await _talk(settings, agent, verbose, turn, options)
        except asyncio.CancelledError:  # wherever it was: the session may not even be open yet
            if not ended_by:
                raise
            return 128 + ended_by[0]


async def _talk(
    settings: "Settings", agent: str | None, verbose: bool, turn: TurnOptions, options: dict[str, Any]
) -> int:
    from ostler.cli.live import print_lines
    from ostler.cli.trusting import ask_for_trust
    from ostler.render.lines import continue_line

    talk = await Chat.open(settings, agent, verbose, turn, options)
    try:
        ask_for_trust(talk.session.setup, talk.session.row.agent, talk.session.row.folder)
        return await talk.converse()
    finally:
        await talk.close()
        if sys.stdin.isatty() and talk.session.last is not None:
            print_lines([continue_line(talk.session.row.label, talking=True)])


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[list[int]]:
    """TERM and HUP cancel what runs here, so that everything is left in order; which of them it was."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    came: list[int] = []

    def leave(number: int) -> None:
        came.append(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, leave, number)
    try:
        yield came
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)


class Chat:
    """One session at a terminal: what is asked of the next turn, and how it is shown."""

    def __init__(self, ostler: "Ostler", session: "LiveSession", verbose: bool, turn: TurnOptions) -> None:
        self.ostler, self.session = ostler, session
        self.turns, self.running = 0, False  # how many were begun, and whether one runs
        self.left: int | None = None  # the exit code of a Ctrl-C that left
        self.offered = ostler.offered(session.id)  # what the agent has, as far as it told
        self._verbose, self._options = verbose, turn  # of the next turn
        self._header = ""  # what the last turn said of who works

    @classmethod
    async def open(
        cls, settings: "Settings", agent: str | None, verbose: bool, turn: TurnOptions, options: dict[str, Any]
    ) -> "Chat":
        """Raises what keeps the first turn from beginning at all: no such agent, no dialogs, no such session."""
        from ostler.cli.turns import opened
        from ostler.work.turns.setup import server_of

        o = opened(settings, "chat")
        await o.__aenter__()
        try:
            session = await o.session(
                agent,
                folder=options["folder"],
                session=options["session"],
                name=options["name"],
                resume_last=options["resume"],
                **{key: options[key] for key in OF_SESSION},
            )
            if session.row.agent == "exec":
                raise OstlerError("bad_request", f"session {session.id} ran commands: it has no agent to talk to")
            server = server_of(session.setup, session.row.agent)
            if server.dialog is None:
                able = ", ".join(a.name for a in session.setup.agents.values() if a.dialog)
                raise OstlerError("unsupported", f"{server.name} does not support dialogs", f"Agents that do: {able}")
            mcp = servers_of(options["mcp"], session.setup.settings)
        except BaseException:
            await o.__aexit__(None, None, None)
            raise
        return cls(o, session, verbose, structs.replace(turn, mcp=mcp))

    async def close(self) -> None:
        await self.ostler.__aexit__(None, None, None)

    async def converse(self) -> int:
        """All that is said, until there is no more; the exit code."""
        from ostler.cli.chat_lines import input_for

        code = 0
        typed = input_for(self)
        async with contextlib.aclosing(typed.lines()) as lines:
            async for line in lines:
                if self._is_for_ostler(line):
                    if not self.obey(line):
                        break
                    continue
                try:
                    code = await self._turn(line, typed) or code
                except OstlerError as error:
                    code = complain(str(error), error.exit_code)
        if self.left is not None:
            return self.left
        return 0 if sys.stdin.isatty() else code

    async def _turn(self, line: str, typed: "ChatInput | Lines") -> int:
        """Runs one turn under a view; its exit code."""
        from ostler.cli.turns import exit_code

        prompt, command = line.removeprefix("/") if line.startswith("//") else line, self.is_command(line)
        access = self._options.access or self.session.row.access
        shown = typed.view(access, self._verbose, self._header, _HINT)
        view = asking(self.ostler, self.session, shown, typed)
        self.turns, self.running = self.turns + 1, True
        view.begin(self.session.row.agent)
        run = self.session.run(prompt, structs.replace(self._options, command=command))
        try:
            async with contextlib.aclosing(run):
                async for event in run:
                    self.offered = event if isinstance(event, Offered) else self.offered
                    view.show(event)
        finally:
            self.running = False
            view.stop()
        self._header = shown.renderer.header
        if run.envelope is None:
            raise OstlerError("cancelled", "cancelled before the turn began")
        view.end(run.envelope)
        return exit_code(run.envelope)

    def interrupt(self) -> None:
        self.ostler.turns.cancel_all()

    def redacted(self, text: str) -> str:
        """Without the secrets that are known: for what is kept of what was typed."""
        from ostler.store import Redactor
        from ostler.work.turns.environment import secrets

        return Redactor(secrets(os.environ, {}, self.session.setup.settings.redact)).text(text)

    def _is_for_ostler(self, line: str) -> bool:
        """A pasted text may begin with a path."""
        name = line.split(maxsplit=1)[0]
        mine = name in OWN or "\n" not in line
        return line.startswith("/") and not line.startswith("//") and mine and not self.is_command(line)

    def is_command(self, line: str) -> bool:
        """Whether the agent itself takes this line as a command; ostler's own come first."""
        from ostler.work.offers import is_command

        return line.partition(" ")[0] not in OWN and is_command(line, self.offered)

    def completions(self, line: str) -> list[str]:
        """The whole lines that this one may become."""
        offered = self.offered or Offered()
        known = [f"/access {access}" for access in ACCESS_ORDER]
        known += [f"/model {offer.id}" for offer in offered.models] + [f"/mode {offer.id}" for offer in offered.modes]
        if " " not in line:
            known = [*OWN, *(f"/{offer.id}" for offer in offered.commands if f"/{offer.id}" not in OWN)]
        return [each for each in known if line.startswith("/") and each.startswith(line)]

    def obey(self, line: str) -> bool:
        """Carries out a command; False: it was the one that leaves."""
        name, _, rest = line.partition(" ")
        rest = rest.strip()
        match name:
            case "/exit" | "/quit":
                return False
            case "/help":
                click.echo(HELP)
            case "/commands":
                self._list("commands")
            case "/model" | "/mode" if rest:
                self._options = structs.replace(self._options, **{name[1:]: rest})
                click.echo(f"{name[1:]} {rest}, from the next prompt on")
            case "/model" | "/mode":
                self._list(f"{name[1:]}s")
            case "/access" if rest in ACCESS_ORDER:
                # A new process begins with the mode of its access.
                self._options = structs.replace(self._options, access=rest, mode=None)
                click.echo(f"access {rest}, from the next prompt on")
            case "/steer" if rest:
                complain("no turn is running: send it as a prompt", 0)
            case "/access" | "/steer":
                complain(f"{name} needs {'an access' if name == '/access' else 'a text'}: see /help", 0)
            case _:
                complain(f"there is no command {name}: /help. As a prompt: /{line}", 0)
        return True

    def _list(self, what: str) -> None:
        """Commands, models or modes; the one that holds is marked."""
        from ostler.render.lines import columns
        from ostler.terminal.safe import one_line

        if self.offered is None:
            complain(f"the agent lists its {what} with its first turn", 0)
            return
        now = {"models": self.offered.model, "modes": self.offered.mode}.get(what)
        found: tuple[Offer, ...] = getattr(self.offered, what)
        rows = [("*" if each.id == now else " ", one_line(each.id), one_line(each.description)) for each in found]
        for line in columns(rows):
            click.echo(line)
        if not rows:
            click.echo(f"the agent did not list any {what}")

    def steers(self, line: str) -> bool:
        """Whether a line is meant for the turn that runs; then it is told."""
        name, _, text = line.partition(" ")
        if name != "/steer" or not text.strip():
            return False
        self.ostler.turns.own(self._steer(text.strip()))
        return True

    async def _steer(self, text: str) -> None:
        try:
            await self.ostler.steer(self.session.id, text)
        except OstlerError as error:
            complain(str(error), 0)
