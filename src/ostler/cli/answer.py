"""`ostler answer` and `ostler steer`: words for a turn that runs elsewhere."""

from typing import TYPE_CHECKING

import click

from ostler.cli.sessions import complete_session, with_ostler

if TYPE_CHECKING:
    from ostler.words import Asked
    from ostler.work import Ostler


@click.command(short_help="Answer what an agent asks.")
@click.argument("session", shell_complete=complete_session)
@click.argument("option", required=False, type=click.Choice(["allow", "deny", "always", "never"]))
@click.option("--ask", "ask", metavar="ID", default="", help="Which ask, where several are open.")
@click.option("--message", metavar="TEXT", default="", help="What the agent is told with a deny.")
def answer(session: str, option: str | None, ask: str, message: str) -> int:
    """Answer what the agent asks in SESSION, whichever process runs its turn. The first answer counts.

    `always` lasts for the session and is kept nowhere else. Without an answer, the open asks are listed.

    \b
      ostler answer k3
      ostler answer k3 allow
      ostler answer k3 deny --message "use the test database"
    """
    if message and option not in ("deny", "never"):
        raise click.UsageError("--message goes with deny or never")

    async def act(o: "Ostler") -> "list[Asked]":
        from ostler.work.asks import Answer

        if option is None:
            return _open_asks(o, session)
        await o.answer(session, Answer(ask=ask, option=option, message=message))
        return []

    asks = with_ostler(act)
    if option is None:
        _list(asks)
    return 0


def _open_asks(o: "Ostler", key: str) -> "list[Asked]":
    row = o.find(key)
    turns = [turn for turn in o.store.running_turns() if turn.session == row.id]
    return [asked for turn in turns for asked in o.open_asks(turn.id)]


def _list(asks: "list[Asked]") -> None:
    from ostler.cli.ask_view import choices
    from ostler.cli.live import print_lines
    from ostler.terminal.safe import one_line
    from ostler.work.lines import DIM, Line, asked_lines

    if not asks:
        click.echo("nothing is asked in this session")
    for asked in asks:
        words: Line = [(f"  --ask {one_line(asked.id)}: {', '.join(choices(asked))}", DIM)]
        print_lines([*asked_lines(asked), words])


@click.command(short_help="Tell a running turn more.")
@click.argument("session", shell_complete=complete_session)
@click.argument("text")
def steer(session: str, text: str) -> int:
    """Tell the turn that runs in SESSION more, where its agent can take it. TEXT is literal.

    \b
      ostler steer k3 "leave the tests alone"
    """
    if not text.strip():
        raise click.UsageError("TEXT is empty")

    async def act(o: "Ostler") -> None:
        await o.steer(session, text)

    with_ostler(act)
    return 0
