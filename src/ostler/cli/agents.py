"""`ostler agents` and `ostler doctor`."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ostler.model import Session
    from ostler.render.lines import Line
    from ostler.work import Ostler
    from ostler.work.probe import AgentReport
    from ostler.work.sessions.preflight import Check


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in known_names() if name.startswith(incomplete)]


def known_names() -> list[str]:
    """The agents and profiles that the settings know here."""
    import os

    from ostler.settings import load_settings
    from ostler.work.known_agents import agents_of

    settings = load_settings(folder=".", environ=os.environ).settings
    return list(dict.fromkeys((*agents_of(settings), *settings.profiles)))


@click.command(short_help="List the agents and what they can do.")
@click.option("--json", is_flag=True, help="Print it as JSON.")
def agents(json: bool) -> None:
    """List the agents: installed or not, logged in or not, and what they can do.

    \b
      ostler agents
      ostler agents --json
    """
    from ostler.render.lines import columns

    reports = _reports((), sandboxes=False)
    if json:
        _print_json(reports)
        _print_plug_in_problems(err=True)
        return
    rows = [("AGENT", "INSTALLED", "LOGIN", "CAN")]
    for r in reports:
        can = ", ".join(_able(r)) if r.installed else f"install: {r.install}"
        rows.append((r.name, (r.version or "yes") if r.installed else "no", r.login if r.installed else "", can))
    for line in columns(rows):
        click.echo(line)
    _print_profiles()
    _print_plug_in_problems()


def _print_plug_in_problems(err: bool = False) -> None:
    """Why agents of other packages are not there. In JSON there is no place for it: then it goes to stderr."""
    from ostler.terminal.safe import one_line
    from ostler.work.known_agents import plug_in_problems

    problems = plug_in_problems()
    if problems and not err:
        click.echo()
    for problem in problems:
        said = f"! {one_line(problem, 400)}"
        click.echo(click.style(said, fg="yellow"), err=err)


def _print_profiles() -> None:
    """The agents that the settings give a name, a model and a prompt of their own."""
    from ostler.cli.turns import settings_for
    from ostler.render.lines import columns
    from ostler.terminal.safe import one_line

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


@click.command(short_help="Check what is installed, logged in and missing.")
@click.argument("names", nargs=-1, metavar="[AGENT|SESSION]…", shell_complete=_complete)
@click.option("--online", is_flag=True, help="Ask each agent for one word: a tiny turn, of which nothing is kept.")
@click.option("--json", is_flag=True, help="Print it as JSON.")
def doctor(names: tuple[str, ...], online: bool, json: bool) -> int:
    """Check each agent: is it installed, is it logged in, and what is missing?

    For a session: whether it can be resumed, and what is in the way. Nothing is sent anywhere, unless
    --online is given: then it exits with 1 if an agent does not answer. Of variables, only the names are shown.

    \b
      ostler doctor
      ostler doctor claude
      ostler doctor claude --online
      ostler doctor k3
    """
    from ostler.cli.live import print_lines
    from ostler.cli.views import json_text

    agents, sessions = _agents_and_sessions(names)
    reports = _reports(agents, online=online) if agents or not sessions else []
    code = 1 if any(report.online and not report.online.ok for report in reports) else 0
    checked = _checked(sessions) if sessions else []
    if json:
        resumes = [{"session": row, "checks": checks} for row, checks in checked]
        click.echo(json_text([*reports, *resumes]), nl=False)
        _print_plug_in_problems(err=True)
        return code
    for i, report in enumerate(reports):
        print_lines([*([[]] if i else []), *examined(report)])
    if not names:
        print_lines([[], *_walls(), *_panes()])
    for i, (row, checks) in enumerate(checked):
        print_lines([*([[]] if i or reports else []), *resumable(row, checks)])
    _print_plug_in_problems()
    return code


def _walls() -> "list[Line]":
    """Whether the kernel can keep turns to their access."""
    from ostler.render.lines import BOLD, GOOD, WARN
    from ostler.work.walls import described_walls

    works, text = described_walls()
    return [[("✓ ", GOOD) if works else ("! ", WARN), ("walls  ", BOLD), (text, "")]]


def _panes() -> "list[Line]":
    """Whether there is a tmux for panes, and what was left of some."""
    from ostler.cli.sessions import with_ostler
    from ostler.render.lines import BOLD, GOOD, WARN, counted

    async def look(o: "Ostler") -> tuple[bool, str]:
        text, works = await o.panes.described()
        stale = await o.panes.prune(dry_run=True)
        left = f"; {counted(len(stale), 'pane')} of sessions that are gone: run `ostler prune`" if stale else ""
        return works and not stale, text + left

    well, text = with_ostler(look)
    return [[("✓ ", GOOD) if well else ("! ", WARN), ("tmux   ", BOLD), (text, "")]]


def _agents_and_sessions(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those that name an agent, a model or a profile, and the others: sessions."""
    from ostler.cli.run import namer
    from ostler.cli.turns import settings_for

    known = namer(settings_for(None)) if names else bool
    return tuple(n for n in names if known(n)), tuple(n for n in names if not known(n))


def _checked(keys: tuple[str, ...]) -> "list[tuple[Session, tuple[Check, ...]]]":
    from ostler.cli.sessions import with_ostler
    from ostler.work.known_agents import find_agent
    from ostler.work.sessions.preflight import preflight

    async def look(o: "Ostler") -> "list[tuple[Session, tuple[Check, ...]]]":
        await o.turns.end_orphaned(carry_on=False)
        for key in keys:
            if not o.store.find(key):
                find_agent(o.settings, key)  # says which names there are
        return [(row, await preflight(o.setup_in(row.folder), row)) for row in map(o.find, keys)]

    return with_ostler(look)


def resumable(row: "Session", checks: "Iterable[Check]") -> "list[Line]":
    """What the doctor says about one session."""
    from ostler.render.lines import BAD, BOLD, DIM, GOOD, WARN
    from ostler.terminal.safe import one_line

    marks = {True: ("✓ ", GOOD), False: ("✗ ", BAD), None: ("? ", WARN)}
    bad = any(check.ok is False for check in checks)
    lines: list[Line] = [[marks[not bad], (one_line(row.label), BOLD), (f" · session with {row.agent}", DIM)]]
    for check in checks:
        lines.append([("    ", ""), marks[check.ok], (f"{check.name:<13}", DIM), (one_line(check.text, 400), "")])
        if check.hint and check.ok is False:
            lines.append([(" " * 19, ""), (one_line(check.hint, 400), DIM)])
    return lines


def examined(report: "AgentReport") -> "list[Line]":
    """What the doctor says about one agent."""
    from ostler.render.lines import BOLD, DIM, WARN
    from ostler.terminal.safe import one_line

    lines: list[Line] = [[_mark(report), (report.name, BOLD), (f" · {report.title}", DIM)]]
    facts = [
        ("installed", one_line(_installed(report))),
        ("logged in", _login(report)),
        ("log in", report.login_command if report.installed and report.login != "yes" else ""),
        ("keys set", ", ".join(report.keys_set) or ("none" if report.keys_unset else "")),
        ("not set", ", ".join(report.keys_unset)),
        ("withheld", one_line(", ".join(report.withheld)) or "nothing"),
        ("access", _kept_by(report)),
        ("sandbox", _sandbox(report)),
        ("can", ", ".join(_able(report))),
        ("folder", one_line(_project_config(report), 600)),
        ("online", one_line(report.online.text, 600) if report.online else ""),
        ("problem", one_line(report.problem, 400)),
        ("note", one_line(report.untested, 400)),
        ("install", report.install if not report.installed else ""),
    ]
    loud = {"problem", "note", *(["online"] if report.online and not report.online.ok else [])}
    loud |= {"sandbox"} if report.sandbox == "broken" else set()
    return lines + [[(f"    {name:<11}", DIM), (value, WARN if name in loud else "")] for name, value in facts if value]


def _mark(report: "AgentReport") -> "tuple[str, str]":
    """A tick is for what is known to be well."""
    from ostler.render.lines import BAD, GOOD, WARN

    if not report.installed:
        return "✗ ", BAD
    silent = report.online is not None and not report.online.ok
    if report.problem or silent or report.login == "no" or report.sandbox == "broken":
        return "! ", WARN
    known = report.login == "yes" and report.sandbox != "unknown"
    return ("✓ ", GOOD) if known else ("? ", WARN)


def _installed(report: "AgentReport") -> str:
    if not report.installed:
        return "no"
    return f"{report.path} ({report.version})" if report.version else str(report.path)


def _login(report: "AgentReport") -> str:
    if report.login != "unknown":
        return report.login
    if not report.installed:
        return ""
    return f"unknown: no key is set and no login was found. Check with: ostler doctor {report.name} --online"


def _kept_by(report: "AgentReport") -> str:
    """What keeps it to `read` and to `write`, and why it is no wall."""
    from ostler.terminal.safe import one_line

    words = {"wall": "a wall", "sandbox": "its own sandbox", "flags": "its flags alone", "denied": "denied"}
    by = {access: words[kept.by] for access, kept in report.kept.items()}
    said = f"read and write: {by['read']}" if len({*by.values()}) == 1 else ""
    if not said or "denied" in by.values():
        said = ", ".join(f"{access}: {word}" for access, word in by.items())
    why = dict.fromkeys(kept.why for kept in report.kept.values() if kept.why)
    return said + (f" ({one_line('; '.join(why), 300)})" if why else "") if by else ""


def _sandbox(report: "AgentReport") -> str:
    from ostler.terminal.safe import one_line

    words = {"": "", "works": "works", "unknown": "unknown: ", "broken": "does not work: "}
    return words[report.sandbox] + one_line(report.sandbox_problem, 400)


def _project_config(report: "AgentReport") -> str:
    if not report.project_config:
        return ""
    return f"has {report.project_config}: " + ("trusted" if report.trusted else "not trusted, run `ostler trust`")


def _able(report: "AgentReport") -> list[str]:
    """`resume`, `schema (native)` …: what is False or "no" is left out."""
    return [
        name if value is True else f"{name} ({value})"
        for name, value in report.abilities.items()
        if value not in (False, "no", "", None)
    ]


def _reports(names: tuple[str, ...], *, sandboxes: bool = True, online: bool = False) -> "list[AgentReport]":
    import asyncio

    from ostler.cli.turns import opened, settings_for

    async def ask() -> "list[AgentReport]":
        async with opened(settings_for(None), "doctor") as o:
            return await o.doctor(list(names) or None, folder=os.getcwd(), sandboxes=sandboxes, online=online)

    return asyncio.run(ask())


def _print_json(reports: "list[AgentReport]") -> None:
    from ostler.cli.views import json_text

    click.echo(json_text(reports), nl=False)
