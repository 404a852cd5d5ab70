"""`ostler agents` and `ostler doctor`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ostler.words import Session
    from ostler.work import Ostler
    from ostler.work.lines import Line
    from ostler.work.preflight import Check
    from ostler.work.probe import AgentReport


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from ostler.agents import AGENTS

    return [name for name in AGENTS if name.startswith(incomplete)]


@click.command(short_help="List the agents and what they can do.")
@click.option("--json", is_flag=True, help="Print it as JSON.")
def agents(json: bool) -> None:
    """List the agents: installed or not, logged in or not, and what they can do.

    \b
      ostler agents
      ostler agents --json
    """
    from ostler.work.lines import columns

    reports = _reports(())
    if json:
        _print_json(reports)
        return
    rows = [("AGENT", "INSTALLED", "LOGIN", "CAN")]
    for r in reports:
        can = ", ".join(_able(r)) if r.installed else f"install: {r.install}"
        rows.append((r.name, (r.version or "yes") if r.installed else "no", r.login if r.installed else "", can))
    for line in columns(rows):
        click.echo(line)
    _print_profiles()


def _print_profiles() -> None:
    """The agents that the settings give a name, a model and a prompt of their own."""
    from ostler.cli.turns import settings_for
    from ostler.terminal.safe import one_line
    from ostler.work.lines import columns

    profiles = settings_for(None).profiles
    if not profiles:
        return
    click.echo()
    rows = [("PROFILE", "AGENT", "MODEL", "DESCRIPTION")]
    rows += [(name, p.agent or "by model", p.model or "", one_line(p.description)) for name, p in profiles.items()]
    for (name, *_), line in zip(rows, columns(rows), strict=True):
        color = profiles[name].color if name in profiles else ""
        click.echo(click.style(line, fg=color) if color in _COLORS else line)


_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


@click.command(short_help="Say what is installed, logged in and missing.")
@click.argument("names", nargs=-1, metavar="[AGENT|SESSION]…", shell_complete=_complete)
@click.option("--json", is_flag=True, help="Print it as JSON.")
def doctor(names: tuple[str, ...], json: bool) -> None:
    """Say for each agent what is installed, whether it is logged in, and what is missing.

    Of a session: whether it can be resumed, and what is in the way. Nothing is sent anywhere. Of variables
    only the names are shown.

    \b
      ostler doctor
      ostler doctor claude
      ostler doctor k3
    """
    from ostler.cli.live import json_text, print_lines

    agents, sessions = _told_apart(names)
    reports = _reports(agents) if agents or not sessions else []
    checked = _checked(sessions) if sessions else []
    if json:
        resumes = [{"session": row, "checks": checks} for row, checks in checked]
        click.echo(json_text([*reports, *resumes]), nl=False)
        return
    for i, report in enumerate(reports):
        print_lines([*([[]] if i else []), *examined(report)])
    for i, (row, checks) in enumerate(checked):
        print_lines([*([[]] if i or reports else []), *resumable(row, checks)])


def _told_apart(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those that name an agent, a model or a profile, and the others: sessions."""
    from ostler.cli.run import namer
    from ostler.cli.turns import settings_for

    known = namer(settings_for(None)) if names else bool
    return tuple(n for n in names if known(n)), tuple(n for n in names if not known(n))


def _checked(keys: tuple[str, ...]) -> "list[tuple[Session, tuple[Check, ...]]]":
    from ostler.agents import agent_for
    from ostler.cli.sessions import with_ostler
    from ostler.work.preflight import preflight

    async def look(o: "Ostler") -> "list[tuple[Session, tuple[Check, ...]]]":
        await o.turns.end_orphaned()
        for key in keys:
            if not o.store.find(key):
                agent_for(key, o.settings.models)  # says which names there are
        return [(row, await preflight(o.setup, row)) for row in map(o.find, keys)]

    return with_ostler(look)


def resumable(row: "Session", checks: "Iterable[Check]") -> "list[Line]":
    """What the doctor says about one session."""
    from ostler.terminal.safe import one_line
    from ostler.work.lines import BAD, BOLD, DIM, GOOD, WARN

    marks = {True: ("✓ ", GOOD), False: ("✗ ", BAD), None: ("? ", WARN)}
    bad = any(check.ok is False for check in checks)
    lines: list[Line] = [[marks[not bad], (one_line(row.name or row.id), BOLD), (f" · session with {row.agent}", DIM)]]
    for check in checks:
        lines.append([("    ", ""), marks[check.ok], (f"{check.name:<13}", DIM), (one_line(check.text, 400), "")])
        if check.hint and check.ok is False:
            lines.append([(" " * 19, ""), (one_line(check.hint, 400), DIM)])
    return lines


def examined(report: "AgentReport") -> "list[Line]":
    """What the doctor says about one agent."""
    from ostler.terminal.safe import one_line
    from ostler.work.lines import BAD, BOLD, DIM, GOOD, WARN

    mark = (
        ("✗ ", BAD)
        if not report.installed
        else ("! ", WARN)
        if report.problem or report.login == "no"
        else ("✓ ", GOOD)
    )
    lines: list[Line] = [[mark, (report.name, BOLD), (f" · {report.title}", DIM)]]
    facts = [
        ("installed", one_line(f"{report.path} ({report.version or 'version unknown'})") if report.installed else "no"),
        ("logged in", report.login),
        ("keys set", ", ".join(report.keys_set) or "none"),
        ("withheld", one_line(", ".join(report.withheld)) or "nothing"),
        ("can", ", ".join(_able(report)) or "nothing known"),
        ("problem", one_line(report.problem, 400)),
        ("install", report.install if not report.installed else ""),
    ]
    return lines + [
        [(f"    {name:<11}", DIM), (value, WARN if name == "problem" else "")] for name, value in facts if value
    ]


def _able(report: "AgentReport") -> list[str]:
    """`resume`, `schema (native)` …: what is False or "no" is left out."""
    return [
        name if value is True else f"{name} ({value})"
        for name, value in report.abilities.items()
        if value not in (False, "no", "", None)
    ]


def _reports(names: tuple[str, ...]) -> "list[AgentReport]":
    import asyncio

    import ostler
    from ostler.cli.turns import settings_for

    async def ask() -> "list[AgentReport]":
        async with ostler.open(settings_for(None), role="doctor") as o:
            return await o.doctor(list(names) or None)

    return asyncio.run(ask())


def _print_json(reports: "list[AgentReport]") -> None:
    from ostler.cli.live import json_text

    click.echo(json_text(reports), nl=False)
