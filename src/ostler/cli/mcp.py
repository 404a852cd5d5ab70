"""`ostler mcp`."""

import os
import sys
from typing import TYPE_CHECKING

import click

from ostler.access import ACCESS_ORDER

if TYPE_CHECKING:
    from ostler.access import Access
    from ostler.settings import Settings


@click.command(short_help="Let an agent delegate work to others, over MCP.")
@click.option(
    "-a",
    "--access",
    type=click.Choice(ACCESS_ORDER),
    default="write",
    show_default=True,
    help="The most that delegated turns may have; never more than the turn that asks.",
)
def mcp(access: "Access") -> None:
    """Speak MCP on stdin and stdout: an agent gets tools to start turns of other agents, to wait for them and to read
    what came of them. What it started ends with it.

    \b
      [mcp.ostler]                  # in ~/.config/ostler/config.toml
      command = "ostler"
      args = ["mcp"]
    \b
      ostler run claude "have codex review src/" --mcp ostler --access full
      ostler mcp --access full      # delegated turns may have as much access as their caller
    """
    import asyncio

    from ostler.cli.turns import settings_for

    if os.isatty(0):
        print("ostler mcp is meant for agents, not for people: see docs/mcp.md. Ctrl-D quits.", file=sys.stderr)
    asyncio.run(_serve(settings_for(None), access))


async def _serve(settings: "Settings", access: "Access") -> None:
    import asyncio
    from contextlib import suppress

    from ostler.cli.turns import interrupts
    from ostler.mcp.server import serve

    serving = asyncio.ensure_future(serve(settings, os.environ, access))

    def stop() -> None:
        serving.cancel()

    # Being stopped by a signal is an end like any other.
    with interrupts(stop, lambda: None), suppress(asyncio.CancelledError):
        await serving
