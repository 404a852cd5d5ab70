"""`ostler answer` and `ostler steer`: words for a turn that runs elsewhere."""

from typing import TYPE_CHECKING

import click

from ostler.cli.sessions import complete_session, with_ostler

if TYPE_CHECKING:
    from ostler.model import Asked, Session
    from ostler.work import Ostler

OPTIONS = ("allow", "deny", "always", "never")


def how_to_answer(session: str, asked: "Asked") -> str:
    """`answer: ostler answer k3 allow (or deny, always)`"""
    import shlex

    from ostler.cli.ask_view import choices
    from ostler.terminal.safe import one_line

    first, *others = choices(asked)
    more = f" (or {', '.join(others)})" if others else ""
    return f"answer: ostler answer {shlex.quote(one_line(session))} {first}{more}"


@click.command(short_help="Answer an agent's question.")
@click.argument("session", required=False, shell_complete=complete_session)
@click.argument("option", required=False, type=click.Choice(OPTIONS))
@click.option("--ask", "ask", metavar="ID", default="", help="Which question, if several are open.")
@click.option("--message", metavar="TEXT", default="", help="A message for the agent, with deny or never.")
def answer(session: str | None, option: str | None, ask: str, message: str) -> int:
    """Answer what the agent asks in SESSION, whichever process runs its turn. The first answer counts.

    `always` lasts for the session and is kept nowhere else. Without an answer, the open questions are listed.
    Without SESSION: the only one that is asking.

    \b
      ostler answer k3
      ostler answer k3 allow
      ostler answer allow
      ostler answer k3 deny --message "use the test database"
    """
    if option is None and session in OPTIONS:
        session, option = None, session
    if message and option not in ("deny", "never"):
        raise click.UsageError("--message goes with deny or never")

    from ostler.cli.default_session import running_session

    async def act(o: "Ostler") -> "list[Asked]":
        from ostler.work.dialogs.asks import AskAnswer

        row = running_session(o, session, ("asking",))
        if option is None:
            return _open_asks(o, row)
        await o.answer(row.id, AskAnswer(ask=ask, option=option, message=message))
        return []

    asks = with_ostler(act)
    if option is None:
        _list(asks)
    return 0


def _open_asks(o: "Ostler", row: "Session") -> "list[Asked]":
    turns = [turn for turn in o.store.running_turns() if turn.session == row.id]
    return [asked for turn in turns for asked in o.open_asks(turn.id)]


def _list(asks: "list[Asked]") -> None:
    from ostler.cli.ask_view import choices
    from ostler.cli.live import print_lines
    from ostler.render.lines import DIM, Line, asked_lines
    from ostler.terminal.safe import one_line

    if not asks:
        click.echo("this session has no open question")
    for asked in asks:
        words: Line = [(f"  --ask {one_line(asked.id)}: {', '.join(choices(asked))}", DIM)]
        print_lines([*asked_lines(asked), words])


@click.command(short_help="Steer a running turn.")
@click.argument("words", nargs=-1, required=True, metavar="[SESSION] TEXT", shell_complete=complete_session)
def steer(words: tuple[str, ...]) -> int:
    """Steer the turn that is running in SESSION, if its agent supports that. TEXT is taken literally.

    Without SESSION: the only one that is running.

    \b
      ostler steer k3 "leave the tests alone"
      ostler steer "leave the tests alone"
    """
    *named, text = words
    if len(named) > 1:
        raise click.UsageError(f"{len(words)} words where a session and a text were expected: put the text in quotes")
    if not text.strip():
        raise click.UsageError("TEXT is empty")
    from ostler.cli.default_session import running_session

    async def act(o: "Ostler") -> None:
        if not named and o.store.find(text):
            raise click.UsageError(f"{text} is a session: add the text to send")
        row = running_session(o, named[0] if named else None, ("busy", "asking"))
        await o.steer(row.id, text)

    with_ostler(act)
    return 0
