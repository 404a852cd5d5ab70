"""`ostler acp`."""

import os
import sys
from typing import TYPE_CHECKING

import click

from ostler.access import ACCESS_ORDER

if TYPE_CHECKING:
    from ostler.access import Access
    from ostler.settings import Settings


@click.command(short_help="Serve any agent to editors, over ACP.")
@click.argument("agent", required=False, metavar="[AGENT|PROFILE]")
@click.option("-a", "--access", type=click.Choice(ACCESS_ORDER), help="What new sessions may do at first.")
def acp(agent: str | None, access: "Access | None") -> None:
    """Speak ACP, the Agent Client Protocol, on stdin and stdout: Zed, JetBrains, Neovim and acpx can drive
    any agent or profile of ostler. The session's mode is its access; its questions are asked in the editor.

    \b
      ostler acp claude
      acpx --agent "ostler acp codex" exec "explain this repository"
    """
    # Frames alone go to stdout: whatever else is printed, by anybody, goes to stderr.
    sys.stdout.flush()
    sink = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    import asyncio

    from ostler.cli.turns import settings_for
    from ostler.work.sessions.choice import choose

    if os.isatty(0):
        print("ostler acp is meant for editors, not for people: see docs/acp.md. Ctrl-D quits.", file=sys.stderr)
    settings = settings_for(None)
    choose(settings, agent)  # raises now what each session would
    asyncio.run(_serve(settings, agent, access, sink))


async def _serve(settings: "Settings", agent: str | None, access: "Access | None", sink: int) -> None:
    from ostler.acp import AcpAgent, AcpConnection
    from ostler.cli.turns import interrupts, opened
    from ostler.terminal.safe import one_line

    wire = AcpConnection(0, sink, lambda line: print(f"ostler acp: {one_line(line, 500)}", file=sys.stderr))
    async with opened(settings, "acp") as o:
        with interrupts(wire.stop, lambda: None):
            await wire.run(AcpAgent(o, wire, agent, access))
