"""Asks the person at this terminal whether to trust the settings a folder has for an agent: once for each content."""

from typing import TYPE_CHECKING

import click

from ostler.cli.stdin import at_a_terminal
from ostler.settings import trust_file
from ostler.terminal.safe import one_line
from ostler.work.project_config import remember_answer
from ostler.work.turns.setup import project_config_of, server_of

if TYPE_CHECKING:
    from ostler.work.turns.setup import Setup


def ask_for_trust(setup: "Setup", name: str, folder: str) -> None:
    """Asks before a turn begins, where somebody sits here. The answer is kept, also a no: nobody is asked twice."""
    if not at_a_terminal() or name not in setup.agents:
        return
    agent = server_of(setup, name)
    config = project_config_of(setup, folder, agent)
    if not config.places or config.answered or any(place.problem for place in config.places):
        return
    changed = " It has changed since you trusted it." if config.changed else ""
    click.echo(one_line(f"{folder} has settings for {agent.name}: {config.described()}.{changed}", 2000), err=True)
    trusted = click.confirm("Trust it? It can run programs as you", default=False, err=True)
    remember_answer(config, agent, trust_file(setup.environ), trusted)
