"""`ostler chat`: keep talking with an agent in one dialog.

The main thread is the person's: it waits for lines and for Ctrl-C. Turns, asks and the dialog's
process live in a loop of their own beside it, so that an idle dialog is closed while nobody types.
"""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ostler.cli import complain
from ostler.cli.asking import refuse_together, servers_of
from ostler.cli.chat_lines import piped_lines, typed_lines
from ostler.cli.run import asking
from ostler.cli.sessions import complete_session
from ostler.errors import OstlerError
from ostler.words import Offer, Offered

if TYPE_CHECKING:
    from ostler.settings import Settings
    from ostler.work import LiveSession, Ostler

Result = TypeVar("Result")
ACCESSES = ("read", "write", "full")
HELP = """\
/model [NAME]              another model from the next prompt on; alone: those that there are
/mode [NAME]               another mode of the agent, within the access; alone: those that there are
/access read|write|full    another access: a new process goes on with the conversation
/steer TEXT                tell the running turn more, where the agent can
/commands                  what the agent itself takes after a /
/help                      this
/exit                      leave (also Ctrl-D, or Ctrl-C twice)
//TEXT                     a prompt that begins with /"""

OWN = ("/access", "/commands", "/exit", "/help", "/mode", "/model", "/quit", "/steer")


@click.command(short_help="Keep talking with a coding agent.")
@click.argument("agent", required=False, metavar="[AGENT|MODEL|PROFILE]")
@click.option("-C", "--folder", metavar="FOLDER", help="Where the agent works (default: here).")
@click.option("-s", "--session", metavar="SESSION", shell_complete=complete_session, help="Go on with this session.")
@click.option("-c", "--continue", "resume", is_flag=True, help="Go on with the last session in this folder.")
@click.option("-n", "--name", metavar="NAME", help="Give the new session a name.")
@click.option("-m", "--model", metavar="MODEL", help="The model, by the agent's own name for it.")
@click.option("-a", "--access", type=click.Choice(["read", "write", "full"]), help="What it may do (default: read).")
@click.option("--mcp", multiple=True, metavar="NAME|FILE", help="Give it an MCP server. May be repeated.")
@click.option("-v", "--verbose", is_flag=True, help="Show everything: whole thoughts, tool output, raw records.")
def chat(agent: str | None, verbose: bool, **options: Any) -> int:
    """Keep talking with a coding agent: one process serves all turns, and asks before it acts.

    Ctrl-C interrupts the turn, twice leaves; Ctrl-D leaves; /help shows more. Where stdin is no terminal,
    each of its lines is a prompt.

    \b
      ostler chat claude --access write
      ostler chat --continue
    """
    refuse_together(
        {"--session": options["session"], "--continue": options["resume"], "--name": options["name"]},
        ("--session", "--continue", "--name"),
    )
    from ostler.cli.live import print_lines
    from ostler.cli.turns import settings_for
    from ostler.work.lines import continue_line

    settings = settings_for(options["folder"])
    with Beside() as beside:
        talk = beside.run(Chat.open(settings, agent, verbose, options))
        try:
            code = _converse(talk, beside)
        except KeyboardInterrupt:  # between two lines: it leaves as well
            code = 0 if sys.stdin.isatty() else 130
        finally:
            beside.run(talk.close())
    if sys.stdin.isatty() and talk.session.last is not None:
        print_lines([continue_line(talk.session.row.name or talk.session.id)])
    return code


def _converse(talk: "Chat", beside: "Beside") -> int:
    lines = typed_lines(talk) if sys.stdin.isatty() else piped_lines()
    code = 0
    for line in lines:
        command = talk.is_command(line)
        if line.startswith("/") and not line.startswith("//") and not command:
            if not talk.obey(line):
                break
            continue
        prompt = line.removeprefix("/") if line.startswith("//") else line
        code = _turn(talk, beside, prompt, command) or code
    return 0 if sys.stdin.isatty() else code


def _turn(talk: "Chat", beside: "Beside", prompt: str, command: bool) -> int:
    try:
        return beside.wait(talk.turn(prompt, command), talk.interrupt)
    except OstlerError as error:
        return complain(str(error), error.exit_code)


class Chat:
    """One session at a terminal: what is asked of the next turn, and how it is shown."""

    def __init__(self, ostler: "Ostler", session: "LiveSession", verbose: bool, wishes: dict[str, Any]) -> None:
        self.ostler, self.session = ostler, session
        self.waiting: list[str] = []  # lines that were typed while a turn ran
        self.offered = ostler.offered(session.id)  # what the agent has, as far as it told
        self._verbose, self._wishes = verbose, {"mode": None, **wishes}

    @classmethod
    async def open(cls, settings: "Settings", agent: str | None, verbose: bool, options: dict[str, Any]) -> "Chat":
        """Raises what keeps the first turn from beginning at all: no such agent, no dialogs, no such session."""
        import ostler
        from ostler.agents import AGENTS
        from ostler.work.prepare import server_of

        mcp = servers_of(options["mcp"], settings)
        o = ostler.open(settings, role="chat")
        await o.__aenter__()
        try:
            wishes = {name: options[name] for name in ("model", "access")}
            session = await o.session(
                agent,
                folder=options["folder"],
                session=options["session"],
                name=options["name"],
                resume_last=options["resume"],
                **wishes,
            )
            if session.row.agent not in AGENTS:
                raise OstlerError("bad_request", f"session {session.id} ran commands: there is nobody to talk with")
            server = server_of(o.setup, AGENTS[session.row.agent])
            if server.dialog is None:
                able = ", ".join(a.name for a in AGENTS.values() if a.dialog)
                raise OstlerError("unsupported", f"{server.name} holds no dialogs", f"Agents that do: {able}")
        except BaseException:
            await o.__aexit__(None, None, None)
            raise
        return cls(o, session, verbose, {**wishes, "mcp": mcp})

    async def close(self) -> None:
        await self.ostler.__aexit__(None, None, None)

    async def turn(self, prompt: str, command: bool = False) -> int:
        """Runs one turn under a view; its exit code."""
        from ostler.cli.live import choose_view
        from ostler.cli.turns import exit_code

        access = self._wishes["access"] or self.session.row.access
        shown = choose_view(verbose=self._verbose, access=access, hint=_HINT, talking=True)
        view = asking(self.ostler, self.session, shown, self._typed)
        view.begin(self.session.row.agent)
        run = self.session.run(prompt, transport="dialog", command=command, **self._wishes)
        try:
            async with contextlib.aclosing(run) as events:
                async for event in events:
                    self.offered = event if isinstance(event, Offered) else self.offered
                    view.show(event)
        finally:
            view.stop()
        if self.session.last is None:
            raise OstlerError("cancelled", "cancelled before the turn began")
        view.end(self.session.last)
        return exit_code(self.session.last)

    def interrupt(self) -> None:
        self.ostler.turns.cancel_all()

    def is_command(self, line: str) -> bool:
        """Whether the agent itself takes this line as a command; ostler's own come first."""
        from ostler.work.offers import is_command

        return line.partition(" ")[0] not in OWN and is_command(line, self.offered)

    def completions(self, line: str) -> list[str]:
        """The whole lines that this one may become."""
        offered = self.offered or Offered()
        known = [f"/access {access}" for access in ACCESSES]
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
                self._wishes[name[1:]] = rest
                click.echo(f"{name[1:]} {rest}, from the next prompt on")
            case "/model" | "/mode":
                self._list(f"{name[1:]}s")
            case "/access" if rest in ACCESSES:
                self._wishes |= {"access": rest, "mode": None}  # a new process begins with the mode of its access
                click.echo(f"access {rest}, from the next prompt on")
            case "/steer" if rest:
                complain("no turn runs: send it as a prompt", 0)
            case "/access" | "/steer":
                complain(f"{name} what? /help", 0)
            case _:
                complain(f"there is no command {name}: /help. As a prompt: /{line}", 0)
        return True

    def _list(self, what: str) -> None:
        """Commands, models or modes; the one that holds is marked."""
        from ostler.terminal.safe import one_line
        from ostler.work.lines import columns

        if self.offered is None:
            complain(f"the agent tells its {what} with its first turn", 0)
            return
        now = {"models": self.offered.model, "modes": self.offered.mode}.get(what)
        found: tuple[Offer, ...] = getattr(self.offered, what)
        rows = [("*" if each.id == now else " ", one_line(each.id), one_line(each.description)) for each in found]
        for line in columns(rows):
            click.echo(line)
        if not rows:
            click.echo(f"the agent tells of no {what}")

    def _typed(self, line: str) -> None:
        """A line that came while a turn runs: words for it, or the next prompt."""
        name, _, text = line.partition(" ")
        if name == "/steer" and text.strip():
            self.ostler.turns.own(self._steer(text.strip()))
        else:
            self.waiting.append(line)

    async def _steer(self, text: str) -> None:
        try:
            await self.ostler.steer(self.session.id, text)
        except OstlerError as error:
            complain(str(error), 0)


_HINT = "ctrl-c interrupts"


# -- a loop beside the person -----------------------------------------------------------------------


class Beside:
    """An event loop in a thread of its own. Use it by `with`: at the end the thread is gone."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="ostler-chat")

    def __enter__(self) -> "Beside":
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _leave)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """To its end, whatever is typed; a second Ctrl-C leaves at once."""
        return self.wait(work, lambda: None)

    def wait(self, work: Coroutine[Any, Any, Result], interrupt: Callable[[], object]) -> Result:
        """The first Ctrl-C calls `interrupt` in the loop, the second one exits at once."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        interrupted = False
        while True:
            try:
                return self._result(future)
            except KeyboardInterrupt:
                if interrupted:
                    os._exit(130)  # what runs is ended by the warden
                interrupted = True
                self.loop.call_soon_threadsafe(interrupt)

    def _result(self, future: "Future[Result]") -> Result:
        try:
            return future.result()
        except CancelledError as error:
            raise OstlerError("cancelled", "cancelled") from error

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)
