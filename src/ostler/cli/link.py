"""`ostler link`: who may come in."""

from typing import TYPE_CHECKING, Any

import click

from ostler.access import RIGHTS_ORDER
from ostler.cli.user import user_name

if TYPE_CHECKING:
    from ostler.access import Rights
    from ostler.server.auth import Authenticator


_REVOKED = "all links, logins and tokens are revoked"


@click.command(short_help="Create a login link or a token for the server.")
@click.option("--rights", type=click.Choice(RIGHTS_ORDER), default="admin", help="What it allows.")
@click.option("-n", "--name", metavar="NAME", help="Who it is for (default: you).")
@click.option("--bearer", is_flag=True, help="A token for a program instead of a link.")
@click.option(
    "--days",
    type=click.FloatRange(0, 3650, min_open=True),
    metavar="DAYS",
    help="How long a token is valid (default: 30).",
)
@click.option("--revoke-all", is_flag=True, help="Revoke every link, login and token first.")
@click.option("--json", is_flag=True, help="Print it as JSON.")
def link(**options: Any) -> None:
    """Create a link to the page, valid once and for an hour, or a token for a program.

    `view` can watch everything; `type` can also start turns and type into terminals, which means running
    programs as you; `admin` can also remove sessions and create links.

    \b
      ostler link
      ostler link --rights view --name Ada
      ostler link --bearer --rights type --days 7
      ostler link --revoke-all
    """
    from ostler.cli.turns import settings_for
    from ostler.server.auth import Authenticator

    if options["days"] is not None and not options["bearer"]:
        raise click.UsageError("--days is for a token: add --bearer")
    if options["days"] is not None and not options["days"] > 0:  # not a number
        raise click.UsageError("--days needs a number")
    home = settings_for(None).home
    _with_folder(home)
    auth = Authenticator(home)
    if options["revoke_all"]:
        auth.revoke_all()
    name = options["name"] or user_name()
    if options["bearer"]:
        seconds = (options["days"] or 30.0) * 86400
        _print_one(options, "token", auth.sign("bearer", options["rights"], name, seconds))
    else:
        _print_link(options, auth, name, home)


def _print_link(options: dict[str, Any], auth: "Authenticator", name: str, home: str) -> None:
    from ostler.cli.views import json_text
    from ostler.errors import OstlerError
    from ostler.server.auth import LINK_SECONDS
    from ostler.server.lock import who_serves

    serves = who_serves(home)
    if serves is None or not serves.url:
        if options["revoke_all"]:
            click.echo(json_text({"revoked": True}) if options["json"] else f"{_REVOKED}\n", nl=False)
            return
        raise OstlerError("not_found", "no server is running here", "Start it: ostler up")
    rights: Rights = options["rights"]
    _print_one(options, "link", f"{serves.url}/#t={auth.sign('link', rights, name, LINK_SECONDS)}")


def _print_one(options: dict[str, Any], what: str, value: str) -> None:
    from ostler.cli.views import json_text

    revoked = options["revoke_all"]
    if options["json"]:
        facts = {what: value, "rights": options["rights"], **({"revoked": True} if revoked else {})}
        click.echo(json_text(facts), nl=False)
        return
    if revoked:
        click.echo(_REVOKED, err=True)  # stdout has the new one alone
    click.echo(value)


def _with_folder(home: str) -> None:
    from ostler.store.files import private_folder

    private_folder(home, known="ostler.db")
