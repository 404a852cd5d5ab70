"""Statements, links that are used once, the key and its loss."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.server.auth import LINK_SECONDS, LOGIN_SECONDS, Authenticator, Person, clean_name, may, require
from ostler.server.problems import Refusal
from ostler.store import Store, files
from server.conftest import Yard, yard_at
from still_clock import StillClock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path / "state"


# -- tokens -------------------------------------------------------------------------------------------


def test_what_is_signed_is_read(folder: Path) -> None:
    auth = Authenticator(folder)
    said = auth.read(auth.sign("bearer", "type", "Ada", 60), "bearer")
    assert said is not None
    assert said.person == Person(id=said.nonce[:12], name="Ada", rights="type")
    again = auth.read(auth.sign("bearer", "type", "Ada", 60), "bearer")
    assert again is not None and again.person.id != said.person.id


def test_a_statement_is_for_one_purpose(folder: Path) -> None:
    auth = Authenticator(folder)
    for purpose in ("link", "login", "bearer"):
        token = auth.sign(purpose, "admin", "x", 60)  # type: ignore[arg-type]
        read = [other for other in ("link", "login", "bearer") if auth.read(token, other)]  # type: ignore[arg-type]
        assert read == [purpose]


def test_a_statement_ends(folder: Path) -> None:
    clock = StillClock(1_000_000)
    auth = Authenticator(folder, now=clock)
    token = auth.sign("login", "admin", "x", LOGIN_SECONDS)
    clock.now += LOGIN_SECONDS - 1
    assert auth.read(token, "login")
    clock.now += 2
    assert auth.read(token, "login") is None


def test_no_character_can_be_changed(folder: Path) -> None:
    auth = Authenticator(folder)
    token = auth.sign("bearer", "view", "x", 60)
    for at in range(len(token)):
        for other in "AbZ0-_.=":
            forged = token[:at] + other + token[at + 1 :]
            assert forged == token or auth.read(forged, "bearer") is None
    for forged in ("", ".", "..", token + token, token[:-1], token + "A", token + "\n", "ü.ü", "\ud800", "a" * 9999):
        assert auth.read(forged, "bearer") is None


def test_who_has_the_file_has_the_key(folder: Path) -> None:
    """Another process (`ostler link`) signs for the server, and a restart keeps everyone in."""
    token = Authenticator(folder).sign("login", "admin", "x", 60)
    assert Authenticator(folder).read(token, "login")
    assert Authenticator(folder).cookie == Authenticator(folder).cookie
    (folder.parent / "other").mkdir()
    assert Authenticator(folder.parent / "other").read(token, "login") is None
    assert Authenticator(folder.parent / "other").cookie != Authenticator(folder).cookie


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("Ada", "Ada"),
        ("", "somebody"),
        ("a\x1b[31mb\nc", "a[31mbc"),
        ("x" * 99, "x" * 64),
        ("  é ", "é"),
        ("\u202e", "somebody"),
    ],
)
def test_names_are_one_line(name: str, clean: str) -> None:
    assert clean_name(name) == clean


def test_rights_are_a_ladder() -> None:
    who = Person(id="1", name="x", rights="type")
    assert [may(who, right) for right in ("view", "type", "admin")] == [True, True, False]
    require(who, "type")
    with pytest.raises(OstlerError) as caught:
        require(who, "admin")
    assert (caught.value.kind, caught.value.http_status) == ("denied", 403)


# -- the key ------------------------------------------------------------------------------------------


def test_the_key_is_private_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0)
    try:
        auth = Authenticator(folder)
        auth.revoke_all()
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "server.key").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["server.key"]


def test_a_new_key_counts_at_once(folder: Path) -> None:
    server, command = Authenticator(folder), Authenticator(folder)
    token, cookie = server.sign("login", "admin", "x", 60), server.cookie
    login = server.login(token, "login")
    assert login is not None and server.is_good(login)
    command.revoke_all()
    assert server.read(token, "login") is None
    assert not server.is_good(login)
    assert server.cookie != cookie
    assert server.read(command.sign("login", "admin", "x", 60), "login")


def test_a_key_that_is_lost_is_made_anew(folder: Path) -> None:
    auth = Authenticator(folder)
    token = auth.sign("login", "admin", "x", 60)
    (folder / "server.key").unlink()
    assert auth.read(token, "login") is None
    assert (folder / "server.key").exists()


def test_a_key_is_whole_as_soon_as_it_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(fd: int, data: bytes) -> None:
        assert not (folder / "server.key").exists()  # or another process reads half of it
        monkeypatch.undo()
        Authenticator(folder)  # it is quicker: its key is kept
        files.write_all(fd, data)

    monkeypatch.setattr(files, "write_all", write)
    slower = Authenticator(folder)
    assert slower.read(Authenticator(folder).sign("login", "admin", "x", 60), "login")
    assert [path.name for path in folder.iterdir()] == ["server.key"]


@pytest.mark.parametrize("harm", ["open", "short", "link", "empty"])
def test_a_key_that_is_not_ours_alone_is_refused(folder: Path, harm: str) -> None:
    Authenticator(folder)
    key = folder / "server.key"
    if harm == "open":
        key.chmod(0o644)
    elif harm == "link":
        key.rename(folder / "elsewhere")
        key.symlink_to(folder / "elsewhere")
    else:
        key.write_bytes(b"x" * 31 if harm == "short" else b"")
    with pytest.raises(OstlerError) as caught:
        Authenticator(folder)
    assert caught.value.kind == "store" and "Remove" in caught.value.hint


# -- links --------------------------------------------------------------------------------------------


async def test_a_link_is_good_once(folder: Path) -> None:
    with Store.open(folder) as store:
        auth = Authenticator(folder, store)
        link = auth.sign("link", "view", "Ada", LINK_SECONDS)
        said = await auth.redeem(link)
        assert (said.name, said.rights) == ("Ada", "view")
        for again in (auth, Authenticator(folder, store)):  # the second as after a restart
            with pytest.raises(Refusal) as caught:
                await again.redeem(link)
            assert caught.value.status == 401


async def test_a_link_is_good_once_also_for_two_at_once(folder: Path) -> None:
    with Store.open(folder) as store:
        auth = Authenticator(folder, store)
        link = auth.sign("link", "admin", "x", LINK_SECONDS)
        results: list[Any] = await asyncio.gather(*(auth.redeem(link) for _ in range(10)), return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == ["Refusal"] * 9 + ["TokenClaims"]


async def test_what_is_spent_is_forgotten_when_it_would_have_expired(folder: Path) -> None:
    with Store.open(folder) as store:
        clock = StillClock(1_000_000)
        auth = Authenticator(folder, store, now=clock)  # long ago: expired for the one who counts
        old = auth.read(auth.sign("link", "admin", "x", 60), "link")
        assert old is not None
        await auth.end(old)
        new = await Authenticator(folder, store).redeem(Authenticator(folder).sign("link", "admin", "x", 60))
        revoked = Authenticator(folder, store).revoked
        revoked.add(new)
        await revoked.keep()
        assert store.note("server:spent").keys() == {new.nonce}
        assert new.nonce in revoked and old.nonce not in revoked


# -- over HTTP ----------------------------------------------------------------------------------------


async def test_login_by_a_link(yard: Yard) -> None:
    link = yard.auth.sign("link", "type", "Ada", LINK_SECONDS)
    async with yard.as_(None, headers={"origin": yard.url}) as browser:
        assert (await browser.get("/api/me")).status_code == 401
        answer = await browser.post("/api/login", json={"token": link})
        assert answer.status_code == 200
        assert (answer.json()["name"], answer.json()["rights"]) == ("Ada", "type")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"{yard.auth.cookie}=")
        parts = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert parts >= {"httponly", "samesite=strict", "path=/", f"max-age={int(LOGIN_SECONDS)}"}
        assert "secure" not in parts and not any(part.startswith("domain") for part in parts)
        assert link not in cookie
        assert (await browser.get("/api/me")).json() == answer.json()
    async with yard.as_(None) as other:
        answer = await other.post("/api/login", json={"token": link})
        assert (answer.status_code, answer.json()["kind"]) == (401, "unauthenticated")
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"token": 1}', b'{"token": ""}', b'{"token": "x", "y": 1}', b"{"]
)
async def test_logins_that_are_none(yard: Yard, body: bytes) -> None:
    async with yard.as_(None) as client:
        answer = await client.post("/api/login", content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 401)
        assert answer.headers["content-type"] == "application/problem+json"


async def test_neither_cookie_nor_bearer_is_a_link(yard: Yard) -> None:
    async with yard.as_(None) as client:
        for purpose in ("login", "bearer"):
            token = yard.auth.sign(purpose, "admin", "x", 60)  # type: ignore[arg-type]
            assert (await client.post("/api/login", json={"token": token})).status_code == 401


async def test_logout_ends_the_login_for_good(yard: Yard) -> None:
    browser = await yard.browser()
    kept = dict(browser.cookies)
    assert (await browser.post("/api/logout")).status_code == 204
    assert (await browser.get("/api/me")).status_code == 401
    async with yard.as_(None, cookies=kept) as thief:
        assert (await thief.get("/api/me")).status_code == 401
    await browser.aclose()


async def test_a_link_of_a_link(yard: Yard) -> None:
    answer = await yard.client.post("/api/links", json={"rights": "view", "name": "Grace"})
    assert answer.status_code == 201
    base, _, token = answer.json()["url"].partition("/#t=")
    assert base == yard.url
    async with yard.as_(None) as guest:
        me = (await guest.post("/api/login", json={"token": token})).json()
        assert (me["name"], me["rights"]) == ("Grace", "view")
        assert (await guest.post("/api/links", json={"rights": "view"})).status_code == 403


async def test_revoking_puts_everybody_out(yard: Yard) -> None:
    browser = await yard.browser()
    assert (await browser.get("/api/me")).status_code == 200
    Authenticator(yard.ostler.store.folder).revoke_all()
    assert (await browser.get("/api/me")).status_code == 401
    assert (await yard.client.get("/api/me")).status_code == 401
    await browser.aclose()
    again = await yard.browser()
    assert (await again.get("/api/me")).status_code == 200
    await again.aclose()


async def test_a_restart_keeps_people_in(tmp_path: Path) -> None:
    async with yard_at(tmp_path) as first:
        browser = await first.browser()
        cookies = dict(browser.cookies)
        token = first.token()
        await browser.aclose()
    async with yard_at(tmp_path) as second:
        async with second.as_(None, cookies=cookies) as same:
            assert (await same.get("/api/me")).status_code == 200
        async with second.as_(None, headers={"authorization": f"Bearer {token}"}) as program:
            assert (await program.get("/api/me")).status_code == 200
