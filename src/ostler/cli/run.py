"""`ostler run`."""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast, get_args

import click
from msgspec import structs

from ostler.access import ACCESS_ORDER
from ostler.cli import complain
from ostler.cli.asking import (
    dollars,
    duration,
    piped,
    refuse_together,
    servers_of,
    who_and_prompt,
)
from ostler.cli.turn_flags import attached, check_turn_flags, system_of, turn_flags, turn_options
from ostler.errors import OstlerError
from ostler.model import OF_SESSION, Attachment, TransportName, TurnOptions

if TYPE_CHECKING:
    from ostler.cli.ask_view import AskingView, Questioner
    from ostler.cli.views import TurnDisplay
    from ostler.model import HookMode, Limits, Waiting
    from ostler.settings import Settings
    from ostler.testing.cassettes import Recorder
    from ostler.work import LiveSession, Ostler
    from ostler.work.dialogs.asks import AskAnswer

_FOLDER = click.Path(file_okay=True, dir_okay=True)


def _complete_who(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from ostler.cli.agents import known_names

    return [name for name in known_names() if name.startswith(incomplete)] if not ctx.params.get("words") else []


def _complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from ostler.cli.sessions import complete_session

    return complete_session(ctx, param, incomplete)


@click.command(short_help="Run one turn with a coding agent.")
@click.argument("words", nargs=-1, metavar="[AGENT|MODEL|PROFILE] [PROMPT | -]", shell_complete=_complete_who)
@click.option("-C", "--folder", type=_FOLDER, metavar="FOLDER", help="Where the agent works (default: here).")
@click.option(
    "-s",
    "--session",
    metavar="SESSION",
    shell_complete=_complete_session,
    help="Continue this session: its id, beginning of id, or name.",
)
@click.option("-c", "--continue", "resume", is_flag=True, help="Continue the last session in this folder.")
@click.option("-n", "--name", metavar="NAME", help="Give the new session a name.")
@click.option("--agent-session", metavar="ID", help="Continue a conversation that the agent's CLI keeps.")
@click.option("-m", "--model", metavar="MODEL", help="The model, by the agent's own name for it.")
@click.option("-a", "--access", type=click.Choice(ACCESS_ORDER), help="What it may do (default: read).")
@turn_flags
@click.option("--attach", multiple=True, metavar="[TYPE:]FILE", help="Give it a file or image. May be repeated.")
@click.option("--schema", metavar="FILE", help="The answer must match this JSON schema.")
@click.option("--mcp", multiple=True, metavar="NAME|FILE", help="Give it an MCP server. May be repeated.")
@click.option("--timeout", callback=duration, metavar="TIME", help="End the turn after this time: 90, 5m, 1h.")
@click.option("--idle-timeout", callback=duration, metavar="TIME", help="End it after this long without output.")
@click.option("--max-cost", callback=dollars, metavar="DOLLARS", help="End it once it has cost more than this.")
@click.option("--command", is_flag=True, help="The prompt is a slash command of the agent, not text.")
@click.option("--mode", metavar="MODE", help="A mode of the agent's own, with --dialog: plan, …")
@click.option(
    "--dialog/--no-dialog",
    default=None,
    help="Run it in a dialog: it asks before it acts, and you answer here or elsewhere.",
)
@click.option(
    "--visible", is_flag=True, help="Run its own command in a terminal that you can watch: ostler attach, or the page."
)
@click.option(
    "--transport",
    type=click.Choice(get_args(TransportName)),
    help="How to run it: headless, in a dialog, visibly, or in its own screen, in a terminal (pty) or a pane (tmux).",
)
@click.option(
    "--on",
    metavar="MACHINE|LABEL,…",
    help="Run it on the machine with this name or these labels, or on `any` that fits.",
)
@click.option("--no-stdin", is_flag=True, help="Ignore stdin, even if something is piped in.")
@click.option("--wait", is_flag=True, help="If the session is busy, wait for it.")
@click.option(
    "--wait-for",
    type=click.Choice(["ended", "forwarded"]),
    help="Wait for the end, or also until the backend has the result.",
)
@click.option("--record", metavar="FILE", help="Record the agent's output, to be replayed by `script`.")
@click.option("--events", is_flag=True, help="Print each event as a line of JSON.")
@click.option("--json", is_flag=True, help="Print the result alone, as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print the answer alone.")
@click.option("-v", "--verbose", is_flag=True, help="Show everything: whole thoughts, tool output, raw records.")
def run(**options: Any) -> int:
    """Run one turn with a coding agent, and show it live.

    The prompt is literal text. Text that is piped in is added to it, or is the prompt where none
    is given (or `-`). Without an agent, it is the setting default_agent, or the session's own.

    \b
      ostler run claude "fix the failing test" --access write
      git log -20 | ostler run gemini "summarize this" --json
      ostler run --session k3 "and now the docs"
    """
    import asyncio

    _check(options)
    from ostler.cli.turns import settings_for
    from ostler.work.sessions.choice import choose

    settings = settings_for(options["folder"])
    who, prompt = _who_and_prompt(settings, options)
    turn = _turn_options(options)
    if who is not None:
        choose(settings, who)  # raises not_found now, not after a long wait for stdin
    prompt, turn = _with_stdin(prompt, turn, options)
    if options["on"]:
        from ostler.cli.run_on import run_on

        return asyncio.run(run_on(settings, who, prompt, turn, options))
    return asyncio.run(_run(settings, who, prompt, turn, options))


def _check(options: dict[str, Any]) -> None:
    given = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    given["--continue"] = options["resume"]
    refuse_together(
        given,
        ("--session", "--continue", "--agent-session"),
        ("--session", "--name"),
        ("--continue", "--name"),
        ("--json", "--events", "--quiet"),
        ("--quiet", "--verbose"),
        ("--json", "--verbose"),
        ("--events", "--verbose"),
        ("--dialog", "--record", "--visible"),
        ("--dialog", "--transport"),
        ("--visible", "--transport"),
    )
    if options["record"] and options["transport"]:
        from ostler.work.transports.facts import TRANSPORT_FACTS

        if not TRANSPORT_FACTS[options["transport"]].can_be_recorded:
            raise click.UsageError(f"--record and --transport {options['transport']} cannot be used together")
    check_turn_flags(options)
    if options["on"]:
        from ostler.cli.run_on import check_on

        check_on(options)
    for name in ("on", "session", "name", "agent_session", "model", "folder", "mode"):
        if options[name] is not None and not options[name].strip():
            raise click.UsageError(f"--{name.replace('_', '-')} is empty")


def _who_and_prompt(settings: "Settings", options: dict[str, Any]) -> tuple[str | None, str | None]:
    names = namer(settings)
    model = options["model"]
    continuing = bool(options["session"] or options["resume"])
    who, prompt = who_and_prompt(
        options["words"],
        continuing=continuing,
        names=names,
        default=settings.default_agent or (model if model and names(model) else ""),
        piped=piped() and not options["no_stdin"],
        settings=settings,
    )
    if who is None and not continuing and model and names(model):
        who = model  # a model alone says which agent
    return who, prompt


def _with_stdin(prompt: str | None, turn: TurnOptions, options: dict[str, Any]) -> tuple[str, TurnOptions]:
    """The prompt, which stdin may be; what is piped in beside one becomes an attachment of the turn."""
    from ostler.cli.stdin import read_context, read_prompt

    if prompt is None and options["no_stdin"]:
        raise click.UsageError("--no-stdin and `-` cannot be used together")
    if prompt is None:
        return read_prompt(), turn
    text = read_context() if piped() and not options["no_stdin"] else ""
    if text:
        turn = structs.replace(turn, attachments=(*turn.attachments, Attachment(name="stdin", content=text)))
        if not (options["quiet"] or options["json"] or options["events"]):
            from ostler.render.lines import line_count

            click.echo(f"note: stdin is added to the prompt ({line_count(text)})", err=True)
    return prompt, turn


def namer(settings: "Settings") -> Callable[[str], bool]:
    """Whether a word names an agent, a model or a profile."""
    from ostler.work.known_agents import find_agent

    def names(word: str) -> bool:
        if not word or any(c.isspace() for c in word):
            return False
        if word in settings.profiles or word in settings.acp or word in settings.agents:
            return True
        try:
            find_agent(settings, word)
        except OstlerError as error:
            return error.kind == "bad_request"  # several agents know it: said when it is chosen
        return True

    return names


def _turn_options(options: dict[str, Any]) -> TurnOptions:
    """What the flags say of the turn, but not of its session; files are read here, before anything is stored."""
    from ostler.work.turns.schema import load_schema

    options |= system_of(options)
    return structs.replace(
        turn_options(options),
        attachments=tuple(map(attached, options["attach"])),
        schema=load_schema(options["schema"]) if options["schema"] else None,
        transport=_transport(options),
        mode=options["mode"],
        wait_for=options["wait_for"],
        command=options["command"],
    )


def _transport(options: dict[str, Any]) -> TransportName | None:
    """None: nothing was said, and the profile or the agent decides."""
    if options["visible"]:
        return "visible"
    if options["dialog"] is not None:
        return "dialog" if options["dialog"] else "pipe"
    return cast("TransportName | None", options["transport"])


async def _run(settings: "Settings", who: str | None, prompt: str, turn: TurnOptions, options: dict[str, Any]) -> int:
    import ostler
    from ostler.cli.trusting import ask_for_trust
    from ostler.cli.turns import exit_code, opened, show_turn
    from ostler.cli.views import choose_view
    from ostler.work.turns.options import fallback_of

    o = opened(settings, "run")
    o.warden.start()  # while the store is looked at
    async with o:
        session = await o.session(
            who,
            folder=options["folder"],
            session=options["session"],
            name=options["name"],
            resume_last=options["resume"],
            agent_session=options["agent_session"],
            **{key: options[key] for key in OF_SESSION},
        )
        setup = session.setup
        for name in dict.fromkeys((session.row.agent, *fallback_of(turn.fallback, session.row, setup.settings))):
            ask_for_trust(setup, name, session.row.folder)
        limits, mcp = _limits(session, setup.settings, options), servers_of(options["mcp"], setup.settings)
        turn = structs.replace(turn, limits=limits, mcp=mcp)
        view = choose_view(
            **{key: options[key] for key in ("json", "events", "quiet", "verbose")},
            access=options["access"] or session.row.access,
        )
        if may_ask(session, setup.settings, turn.transport, turn.hooks) and not options["events"]:
            view = asking(o, session, view)
        if not (options["quiet"] or options["json"] or options["events"]):
            o.turns.line.on_wait = _show_waiting
        with _recording(options["record"]) as record:
            handle = session.run(prompt, turn, wait=options["wait"], record=record)
            await show_turn(view, session.row.agent, handle, o.turns.cancel_all)
        if handle.envelope is None:
            raise ostler.OstlerError("cancelled", "cancelled before the turn began")
        view.end(handle.envelope)
        return exit_code(handle.envelope)


def _show_waiting(wait: "Waiting") -> None:
    """Why the turn has not begun, on stderr."""
    from ostler.work.pool.view import wait_text

    click.echo(f"waiting: {wait_text(wait)} (place {wait.position})", err=True)


def may_ask(
    session: "LiveSession",
    settings: "Settings",
    transport: TransportName | None = None,
    hooks: "HookMode | None" = None,
) -> bool:
    """Whether somebody may be asked: then that is the person at this terminal. None: the options do not say."""
    from ostler.work.transports.facts import TRANSPORT_FACTS

    profile = settings.profiles.get(session.row.profile or "")
    used = transport or session.row.transport or (profile.transport if profile else None)
    said = (hooks, profile.hooks if profile else None, settings.hooks)
    asks = used is not None and TRANSPORT_FACTS[used].asks_people
    return asks or next((each for each in said if each is not None), None) == "ask"


def asking(
    o: "Ostler", session: "LiveSession", view: "TurnDisplay", person: "Questioner | None" = None
) -> "TurnDisplay | AskingView":
    """The view of a turn of this process, which puts asks to the person at this terminal."""

    async def answer(said: "AskAnswer") -> None:
        try:
            await o.answer(session.id, said)
        except OstlerError as error:
            complain(str(error), 0)

    return asking_view(view, lambda said: o.turns.own(answer(said)), person)


def asking_view(
    view: "TurnDisplay", said: "Callable[[AskAnswer], None]", person: "Questioner | None" = None
) -> "TurnDisplay | AskingView":
    """The view, which puts asks to the person at this terminal; without one, they wait for others."""
    from ostler.cli.ask_view import AskingView, PlainInput
    from ostler.cli.stdin import at_a_terminal

    return AskingView(view, said, person or PlainInput()) if at_a_terminal() else view


@contextlib.contextmanager
def _recording(path: str | None) -> "Iterator[Recorder | None]":
    """The cassette that --record names; none is left behind by a turn that could not begin."""
    if path is None:
        yield None
        return
    from ostler.testing.cassettes import Recorder

    new = not os.path.lexists(path)
    recorder = Recorder(path)
    try:
        yield recorder
    except OstlerError:
        if new:
            os.unlink(path)
        raise
    finally:
        recorder.close()


def _limits(session: "LiveSession", settings: "Settings", options: dict[str, Any]) -> "Limits":
    """The limits of the profile or the settings, with what the flags say instead."""
    from ostler.work.turns.options import limits_of

    flags = {"total": options["timeout"], "idle": options["idle_timeout"], "cost_usd": options["max_cost"]}
    given = {name: value for name, value in flags.items() if value is not None}
    return limits_of(session.row, settings, **given)
