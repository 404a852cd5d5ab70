"""Fills the generated tables of the README and of docs/: `make tables`. tests/test_docs.py holds them to it.

A table stands between `<!-- NAME: generated … -->` and `<!-- /NAME -->`.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import click

from ostler.agents import AGENTS
from ostler.cli import COMMANDS, cli
from ostler.errors import KINDS
from ostler.work.probe import abilities_table, access_table, table

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests"))

import tui_corpus as corpus  # noqa: E402 - tests are no package that is installed

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
    from ostler.server.app import ROUTES
    from ostler.server.openapi import document, routes_table

    return table(["route", "right", "what it does"], routes_table(document(ROUTES, "")))


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


def project_config() -> str:
    """What each agent would take from a folder, and how it is kept from it."""
    taking = [agent for agent in AGENTS.values() if agent.project_config]
    rows = [
        [f"`{a.name}`", ", ".join(f"`{name}`" for name in (*a.project_config, *a.project_config_above)), a.left_out]
        for a in taking
    ]
    return table(["agent", "what it would take", "left out by"], rows)


def hooks() -> str:
    """The hooks of each agent, and how it is told of them."""
    faces = [(agent.name, agent.hooks) for agent in AGENTS.values() if agent.hooks]
    rows = [[f"`{name}`", ", ".join(f"`{event}`" for event in face.events), face.by] for name, face in faces]
    return table(["agent", "hooks", "by"], rows)


def mcp() -> str:
    """By which transports each agent takes MCP servers."""
    rows = []
    for agent in AGENTS.values():
        ways = (agent.dialog.mcp if agent.dialog else (), agent.mcp)
        rows.append([f"`{agent.name}`", *(", ".join(f"`{name}`" for name in way) or "–" for way in ways)])
    return table(["agent", "in a dialog", "without `--dialog`"], rows)


def tested() -> str:
    """The versions of the CLIs that ostler is tested with, and what the last run of `make test-versions` found."""
    results = json.loads((ROOT / "tests" / "real" / "versions.json").read_text())
    rows = [
        [
            f"`{agent.name}`",
            *(f"{version}: {results.get(agent.name, {}).get(version, 'not run')}" for version in agent.tested),
        ]
        for agent in AGENTS.values()
        if agent.tested
    ]
    return table(["agent", "oldest", "newest"], rows)


def modules() -> str:
    """Every folder of the package: what it is for, by its first line, and the modules in it."""
    source = ROOT / "src" / "ostler"
    rows = []
    for folder in sorted({path.parent for path in source.rglob("*.py")}):
        names = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("__"))
        first = (folder / "__init__.py").read_text().split('"""')[1].strip().splitlines()[0]
        rows.append([f"`{folder.relative_to(source.parent)}`", first, ", ".join(names)])
    return table(["folder", "what it is for", "modules"], rows)


def tui_statuses() -> str:
    """How well a status is told by recorded screens."""
    return table(corpus.STATUS_HEAD, corpus.status_rows())


def tui_turns() -> str:
    """How well the end of a turn is told."""
    return table(corpus.TURN_HEAD, corpus.turn_rows())


TABLES: dict[str, Callable[[], str]] = {
    "modules": modules,
    "mcp": mcp,
    "hooks": hooks,
    "asking": asking,
    "tested": tested,
    "project_config": project_config,
    "abilities": lambda: abilities_table(list(AGENTS.values())),
    "access": lambda: access_table(list(AGENTS.values())),
    "routes": routes,
    "statuses": statuses,
    "tui-statuses": tui_statuses,
    "tui-turns": tui_turns,
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
