"""Fills the generated tables of the README and of docs/: `make tables`. tests/test_docs.py holds them to it.

A table stands between `<!-- NAME: generated … -->` and `<!-- /NAME -->`.
"""

import re
from collections.abc import Callable
from pathlib import Path

import click

from ostler.agents import AGENTS
from ostler.cli import COMMANDS, cli
from ostler.errors import KINDS
from ostler.work.probe import abilities_table, access_table, table

ROOT = Path(__file__).parent.parent
FILES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"(<!-- ([\w-]+): generated[^>]*-->\n)(.*?)(<!-- /\2 -->)", re.S)


def flags(command: str) -> str:
    """The flags of a command, as its --help has them."""
    context = click.Context(cli)
    found = cli.get_command(context, command)
    assert found is not None, command
    options = [parameter for parameter in found.params if isinstance(parameter, click.Option)]
    records = [option.get_help_record(context) for option in options]
    return table(["flag", "what it does"], [[f"`{name}`", text] for name, text in filter(None, records)])


def routes() -> str:
    """The routes of the server, as its OpenAPI document has them."""
    from ostler.server.app import litestar_of
    from ostler.server.openapi import document, routes_table

    given = ("ostler", "people", "metrics", "about", "uploads", "terminal_commands", "watcher", "reports")
    return table(["route", "right", "what it does"], routes_table(document(litestar_of(**dict.fromkeys(given)), "")))


def statuses() -> str:
    """What each kind of error is over HTTP."""
    kinds: dict[int, list[str]] = {}
    for kind, codes in KINDS.items():
        kinds.setdefault(codes.http, []).append(f"`{kind}`")
    return table(["status", "kinds"], [[str(status), ", ".join(names)] for status, names in sorted(kinds.items())])


def asking() -> str:
    """How each agent is made to ask in a dialog, and kept to its access."""
    faces = [(agent.name, agent.dialog) for agent in AGENTS.values() if agent.dialog]
    return table(["agent", "in a dialog"], [[f"`{name}`", face.access] for name, face in faces])


def mcp() -> str:
    """By which transports each agent takes MCP servers."""
    rows = []
    for agent in AGENTS.values():
        ways = (agent.dialog.mcp if agent.dialog else (), agent.mcp)
        rows.append([f"`{agent.name}`", *(", ".join(f"`{name}`" for name in way) or "–" for way in ways)])
    return table(["agent", "in a dialog", "in a turn of its own"], rows)


TABLES: dict[str, Callable[[], str]] = {
    "mcp": mcp,
    "asking": asking,
    "abilities": lambda: abilities_table(list(AGENTS.values())),
    "access": lambda: access_table(list(AGENTS.values())),
    "routes": routes,
    "statuses": statuses,
    **{f"flags-{name}": lambda name=name: flags(name) for name in COMMANDS},  # type: ignore[misc]
}


def filled(text: str) -> str:
    """The text with every table as it should be."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[4]}", text)


def main() -> None:
    for path in FILES:
        text = path.read_text()
        if text != filled(text):
            path.write_text(filled(text))
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
