"""`ostler trust` and `ostler init`."""

import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ostler.agents import Agent
    from ostler.settings import Settings
    from ostler.work.project_config import ProjectConfig


@click.command(short_help="Let a folder's settings run programs and widen access.")
@click.argument("path", default=".", type=click.Path(exists=True))
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def trust(path: str, yes: bool) -> int:
    """Trust a folder: its ostler.toml in full, and the settings, hooks, plugins and MCP servers in it for agents.

    PATH is a folder of the project, or its ostler.toml (default: here). You trust what is there now; if it
    changes, you are asked again.

    \b
      ostler trust
      ostler trust ~/project
    """
    from ostler.settings import digest, load_settings, record_trust, trust_file
    from ostler.terminal.safe import one_line
    from ostler.work.project_config import remember_answer

    folder = path if os.path.isdir(path) else os.path.dirname(os.path.realpath(path))
    # A broken file is told now.
    settings = load_settings(folder=folder, environ=os.environ, trust=lambda *_: True).settings
    found = _project_config(folder, settings)
    file, data = _project_file(path, folder, needed=not found)
    widening = _show_file(file, data) if data is not None else False
    for agent, config in found:
        click.echo(f"{one_line(os.path.realpath(folder))} has settings for {agent.name}: {_described(config)}")
    if (widening or found) and not yes and not click.confirm("Trust it?"):
        click.echo("not trusted")
        return 1
    if data is not None:
        record_trust(trust_file(os.environ), file, digest(data))
    for agent, config in found:
        remember_answer(config, agent, trust_file(os.environ), True)
    problems = dict.fromkeys(place.problem for _, config in found for place in config.places if place.problem)
    click.echo(one_line(f"trusted, except that {'; '.join(problems)}", 2000) if problems else "trusted")
    return 1 if problems else 0


def _project_file(path: str, folder: str, needed: bool) -> tuple[str, bytes | None]:
    """The project's file and its content. Raises not_found where there is none that could be trusted, nor else."""
    from ostler.errors import OstlerError
    from ostler.settings import find_project_file, user_file

    notices: list[str] = []
    file, data = find_project_file(folder, notices)
    if data is None and needed:
        what = "".join(notices) or f"no ostler.toml in {os.path.realpath(path)}, nor anything that an agent would take"
        raise OstlerError("not_found", what, "Write one: ostler init")
    if data is not None and os.path.realpath(file) == os.path.realpath(user_file(os.environ)):
        raise OstlerError("bad_request", f"{file} is your own file and needs no trust")
    return file, data


def _show_file(file: str, data: bytes) -> bool:
    """Shows what the project's file would set; whether it needs trust."""
    from ostler.terminal.safe import one_line

    widening = _widening(file, data)
    asks = "would set:" if widening else "asks for nothing that needs trust"
    click.echo("\n".join((f"{one_line(file)} {asks}", *(f"  {line}" for line in widening))))
    return bool(widening)


def _project_config(folder: str, settings: "Settings") -> "list[tuple[Agent, ProjectConfig]]":
    """What the folder holds for each agent that finds something."""
    from ostler.settings import recorded_answers, trust_file
    from ostler.work.known_agents import agents_of
    from ostler.work.project_config import read_project_config

    answers, home = recorded_answers(trust_file(os.environ)), os.path.expanduser("~")
    found = [(agent, read_project_config(folder, agent, home, answers)) for agent in agents_of(settings).values()]
    return [(agent, config) for agent, config in found if config.places]


def _described(config: "ProjectConfig") -> str:
    from ostler.terminal.safe import one_line

    problem = next((f". It cannot be trusted: {place.problem}" for place in config.places if place.problem), "")
    return one_line(config.described() + problem, 2000)


def _widening(file: str, data: bytes) -> list[str]:
    """The keys that need trust, with the values they would set."""
    import msgspec

    from ostler.settings import file_layer, unsafe_keys, user_layer
    from ostler.terminal.safe import one_line

    values = file_layer(file, data).values
    lines = []
    for keys in unsafe_keys(values, user_layer(os.environ).values):
        value: Any = values
        for key in keys:
            value = value[int(key) - 1] if isinstance(value, list) else value[key]
        lines.append(one_line(f"{'.'.join(keys)} = {msgspec.json.encode(value).decode()}", 300))
    return lines


@click.command(short_help="Write a commented ostler.toml.")
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False))
def init(folder: str) -> None:
    """Write a commented ostler.toml in FOLDER (default: here). An existing one is left alone.

    \b
      ostler init
    """
    from ostler.errors import OstlerError
    from ostler.settings import PROJECT_FILE
    from ostler.settings.template import template

    path = os.path.join(folder, PROJECT_FILE)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError as error:
        raise OstlerError("exists", f"{path} already exists", "Edit it, or remove it first") from error
    click.echo(f"wrote {path}")
