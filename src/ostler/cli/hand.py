"""`ostler hand`: a session goes to another agent."""

import asyncio
from typing import Any

import click

from ostler.access import ACCESS_ORDER
from ostler.cli.sessions import complete_session


@click.command(short_help="Hand a session over to another agent.")
@click.argument("session", shell_complete=complete_session)
@click.argument("agent")
@click.argument("prompt", required=False, default="")
@click.option("-n", "--name", metavar="NAME", help="Give the new session a name.")
@click.option("-a", "--access", type=click.Choice(ACCESS_ORDER), help="What it may do (default: as before).")
@click.option("--dry-run", is_flag=True, help="Print the first prompt, and start nothing.")
@click.option("--wait", is_flag=True, help="If the agent's quota is used up, wait for it.")
@click.option("--json", is_flag=True, help="Print the result alone, as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print the answer alone.")
def hand(**options: Any) -> int:
    """Hand SESSION over to AGENT, which continues its work in a new session, linked with the old one.

    Its first prompt says what was asked and done so far, the plan, and what changed in the folder. With
    PROMPT it also says what to do next; without one, to finish what was asked last.

    \b
      ostler hand k3 codex
      ostler hand k3 gemini "only the tests are missing"
      ostler hand k3 codex --dry-run
    """
    return asyncio.run(_hand(options))


async def _hand(options: dict[str, Any]) -> int:
    from ostler.cli.run import asking, may_ask
    from ostler.cli.turns import exit_code, opened, settings_for, show_turn
    from ostler.cli.views import choose_view
    from ostler.errors import OstlerError

    async with opened(settings_for(None), "run") as o:
        if options["dry_run"]:
            from ostler.work.sessions.hand import handed_work
            from ostler.work.sessions.handover import handover_prompt

            work = handed_work(o.store, o.find(options["session"]))
            click.echo(handover_prompt(work, options["prompt"]))
            return 0
        live, prompt = await o.hand(options["session"], options["agent"], options["prompt"], options["name"])
        access = options["access"]
        view = choose_view(
            json=options["json"],
            events=False,
            quiet=options["quiet"],
            verbose=False,
            access=access or live.row.access,
        )
        if may_ask(live, live.setup.settings):
            view = asking(o, live, view)
        handle = live.run(prompt, access=access, wait=options["wait"])
        await show_turn(view, live.row.agent, handle, o.turns.cancel_all)
        if handle.envelope is None:
            raise OstlerError("cancelled", "cancelled before the turn began")
        view.end(handle.envelope)
        return exit_code(handle.envelope)
