"""`ostler run`."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ostler.cli import complain
from ostler.cli.asking import (
    dollars,
    duration,
    environment_of,
    read_prompt,
    read_text,
    refuse_together,
    servers_of,
    who_and_prompt,
)
from ostler.errors import OstlerError

if TYPE_CHECKING:
    from ostler.cli.live import View
    from ostler.settings import Settings
    from ostler.testing.cassettes import Recorder
    from ostler.words import Limits
    from ostler.work import LiveSession, Ostler
    from ostler.work.asks import Answer

_FOLDER = click.Path(file_okay=True, dir_okay=True)


def _complete_who(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from ostler.agents import AGENTS
    from ostler.settings import load_settings

    profiles = load_settings(folder=".", environ=os.environ).settings.profiles
    return [name for name in (*AGENTS, *profiles) if name.startswith(incomplete)] if not ctx.params.get("words") else []


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
@click.option("--agent-session", metavar="ID", help="Go on with a conversation that the agent's CLI keeps.")
@click.option("-m", "--model", metavar="MODEL", help="The model, by the agent's own name for it.")
@click.option("-a", "--access", type=click.Choice(["read", "write", "full"]), help="What it may do (default: read).")
@click.option("--system", metavar="TEXT", help="A system prompt.")
@click.option("--system-file", metavar="FILE", help="A system prompt from a file.")
@click.option("--attach", multiple=True, metavar="FILE", help="Give it a file or image. May be repeated.")
@click.option("--schema", metavar="FILE", help="The answer must match this JSON schema.")
@click.option("--allow-tool", multiple=True, metavar="TOOL", help="Allow only these tools. May be repeated.")
@click.option("--deny-tool", multiple=True, metavar="TOOL", help="Deny this tool. May be repeated.")
@click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="Give it a variable. May be repeated.")
@click.option("--mcp", multiple=True, metavar="NAME|FILE", help="Give it an MCP server. May be repeated.")
@click.option("--timeout", callback=duration, metavar="TIME", help="End the turn after this time: 90, 5m, 1h.")
@click.option("--idle-timeout", callback=duration, metavar="TIME", help="End it after this long a silence.")
@click.option("--max-cost", callback=dollars, metavar="DOLLARS", help="End it when it has cost more than this.")
@click.option("--fallback", multiple=True, metavar="AGENT", help="Who takes over if the agent cannot start.")
@click.option("--mode", metavar="MODE", help="A mode of the agent's own, with --dialog: plan, …")
@click.option("--dialog/--no-dialog", help="In a dialog: it asks before it acts, here or wherever you answer.")
@click.option("--wait", is_flag=True, help="If the session is busy, wait for it.")
@click.option("--record", metavar="FILE", help="Record the agent's output, to be replayed by `script`.")
@click.option("--events", is_flag=True, help="Print each event as a line of JSON.")
@click.option("--json", is_flag=True, help="Print the result alone, as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print the answer alone.")
@click.option("-v", "--verbose", is_flag=True, help="Show everything: whole thoughts, tool output, raw records.")
def run(**options: Any) -> int:
    """Run one turn with a coding agent, and show it live.

    The prompt is literal text; `-` reads it from stdin. Without an agent, the setting default_agent is
    taken, or the session's own.

    \b
      ostler run claude "fix the failing test" --access write
      git diff | ostler run gemini - --json
      ostler run --session k3 "and now the docs"
    """
    import asyncio

    _check(options)
    from ostler.agents import agent_for
    from ostler.cli.turns import settings_for

    settings = settings_for(options["folder"])
    who, prompt = _who_and_prompt(settings, options)
    if prompt is None:
        prompt = read_prompt()
    turn = _turn_options(options)
    turn["mcp"] = servers_of(options["mcp"], settings)
    for name in options["fallback"]:
        agent_for(name, settings.models)  # raises not_found now, not when it is needed
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
        ("--system", "--system-file"),
        ("--dialog", "--record"),
    )
    both = set(options["allow_tool"]) & set(options["deny_tool"])
    if both:
        raise click.UsageError(f"the tool {min(both)} is both allowed and denied")
    for name in ("session", "name", "agent_session", "model", "folder", "system", "mode"):
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
        piped=not sys.stdin.isatty(),
    )
    if who is None and not continuing and model and names(model):
        who = model  # a model alone says which agent
    return who, prompt


def namer(settings: "Settings") -> Callable[[str], bool]:
    """Whether a word names an agent, a model or a profile."""
    from ostler.agents import agent_for

    def names(word: str) -> bool:
        if not word or any(c.isspace() for c in word):
            return False
        if word in settings.profiles or word in settings.acp:
            return True
        try:
            agent_for(word, settings.models)
        except OstlerError as error:
            return error.kind == "bad_request"  # several agents know it: said when it is chosen
        return True

    return names


def _turn_options(options: dict[str, Any]) -> dict[str, Any]:
    """What LiveSession.run takes; files are read here, before anything is stored."""
    from ostler.work.schema import load_schema

    if options["system_file"]:
        options["system"] = read_text(options["system_file"], "the system prompt")
    return {
        "access": options["access"],
        "model": options["model"],
        "system": options["system"],
        "tools_allowed": options["allow_tool"] or None,
        "tools_denied": options["deny_tool"] or None,
        "attachments": tuple(os.path.abspath(path) for path in options["attach"]),
        "schema": load_schema(options["schema"]) if options["schema"] else None,
        "env": environment_of(options["env"], os.environ),
        "fallback": options["fallback"] or None,
        "wait": options["wait"],
        "transport": "dialog" if options["dialog"] else "pipe",
        "mode": options["mode"],
    }


async def _run(
    settings: "Settings", who: str | None, prompt: str, turn: dict[str, Any], options: dict[str, Any]
) -> int:
    import ostler
    from ostler.cli.live import choose_view
    from ostler.cli.turns import carry, exit_code

    async with ostler.open(settings, role="run") as o:
        session = await o.session(
            who,
            folder=options["folder"],
            session=options["session"],
            name=options["name"],
            resume_last=options["resume"],
            agent_session=options["agent_session"],
            **{key: options[key] for key in ("model", "access", "system")},
        )
        turn["limits"] = _limits(session, settings, options)
        view = choose_view(
            **{key: options[key] for key in ("json", "events", "quiet", "verbose")},
            access=options["access"] or session.row.access,
        )
        if options["dialog"] and not options["events"]:
            view = asking(o, session, view)
        with _recording(options["record"]) as turn["record"]:
            await carry(view, session.row.agent, session.run(prompt, **turn), o.turns.cancel_all)
        if session.last is None:
            raise ostler.OstlerError("cancelled", "cancelled before the turn began")
        view.end(session.last)
        return exit_code(session.last)


def asking(o: "Ostler", session: "LiveSession", view: "View", typed: "Callable[[str], None] | None" = None) -> "View":
    """The view, which puts asks to the person at this terminal; without one, they wait for others."""
    from ostler.cli.ask_view import AskingView, at_a_terminal

    if not at_a_terminal():
        return view

    async def answer(said: "Answer") -> None:
        try:
            await o.answer(session.id, said)
        except OstlerError as error:
            complain(str(error), 0)

    return AskingView(view, lambda said: o.turns.own(answer(said)), typed)


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
    from msgspec.structs import replace

    profile = settings.profiles.get(session.row.profile or "")
    limits = (profile.limits if profile else None) or settings.limits
    flags = {"total": options["timeout"], "idle": options["idle_timeout"], "cost_usd": options["max_cost"]}
    return replace(limits, **{name: value for name, value in flags.items() if value is not None})
