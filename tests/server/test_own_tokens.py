"""ostler's own links, logins and tokens are secrets like others: nobody comes in by what a terminal or a log shows."""

import re
import sys
from pathlib import Path
from typing import get_args

import pytest

from ostler.access import RIGHTS_ORDER
from ostler.server.auth import Authenticator
from ostler.signed_tokens import TokenPurpose
from ostler.store import Redactor
from ostler.terminal.cast import read_cast
from server.conftest import Yard
from server.served import free_port
from server.watching import watching

PURPOSES = get_args(TokenPurpose)
TOKEN = re.compile(r"[\w-]{20,}\.[\w-]{43}")


@pytest.mark.parametrize("purpose", PURPOSES)
def test_whatever_is_signed_is_taken_out(tmp_path: Path, purpose: TokenPurpose) -> None:
    auth, redactor = Authenticator(tmp_path), Redactor()
    for rights in RIGHTS_ORDER:
        for name in ("a", "Ada Lovelace", "ü" * 64):
            token = auth.sign(purpose, rights, name, 3600)
            for form in (
                "{}",
                "http://127.0.0.1:7717/#t={}",
                "ostler_0123456789ab={}; Path=/",
                '{{"token":"{}"}}',
                "\\n{}",
            ):
                assert redactor.text(form.format(token)) == form.format("[redacted]")
                masker = redactor.masker()
                stars = masker.feed(form.format(token).encode()) + masker.close()
                assert stars == form.format("*" * len(token)).encode()


@pytest.mark.parametrize("text", ["WyJsaW5rIiwi", "WyJsaW5rIl0=", "see WyJiZWFyZXIi.md", "eyWyJsb2dpbiIs"])
def test_what_only_begins_like_one_stays(text: str) -> None:
    assert Redactor().text(text) == text


async def test_nobody_comes_in_by_a_link_that_a_terminal_shows(yard: Yard, tmp_path: Path) -> None:
    other = tmp_path / "other"
    env = {"OSTLER_HOME": str(other)}
    session = (await (await yard.ostler.session("script", folder=str(yard.folder))).keep()).id
    argv = [sys.executable, "-m", "ostler", "up", "--port", str(free_port())]
    terminal = await yard.ostler.terminals.open(session, argv, env=env, cols=200)
    id = terminal.row.id
    async with watching(f"{yard.ws}/api/terminals/{id}/ws", yard.bearer("view")) as viewer:
        await viewer.until(lambda viewer: viewer.shows("valid once, for an hour"))
        assert viewer.shows("/#t=***")
        seen = [bytes(viewer.output).decode(), *viewer.rows]
    seen += [(await yard.client.get(f"/api/terminals/{id}/{what}")).text for what in ("text", "snapshot?history=true")]
    assert (await yard.client.post(f"/api/terminals/{id}/kill")).status_code == 204
    seen += [event.data for event in read_cast(terminal.row.recording).events()]
    assert not any(TOKEN.search(text) for text in seen)
    assert TOKEN.search(Authenticator(other).sign("link", "admin", "me", 60))
