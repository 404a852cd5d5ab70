"""`ostler up`, `down` and `link` as a user has them."""

import http.client
import json
import os
import re
import select
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from cli.conftest import Shell
from ostler.process import tree
from ostler.server.lock import who_serves
from waiting import wait_until

LINK = re.compile(r"http://127\.0\.0\.1:\d+/#t=[\w-]+\.[\w-]+")


@pytest.fixture
def ups(shell: Shell) -> Iterator[Shell]:
    """A shell whose server is gone at the end, whoever started it."""
    yield shell
    state = shell.home / ".local/state/ostler"
    serves = who_serves(state)
    if serves is not None:
        os.kill(serves.pid, signal.SIGKILL)
        wait_until(lambda: not who_serves(state))


def state_of(shell: Shell) -> Path:
    return shell.home / ".local/state/ostler"


def read_until(process: "subprocess.Popen[bytes]", word: str) -> str:
    """What a running command has printed as soon as it holds the word."""
    assert process.stdout is not None and process.stderr is not None
    text = b""
    while word.encode() not in text:
        assert select.select([process.stdout], [], [], 60)[0], text
        data = os.read(process.stdout.fileno(), 65536)
        assert data, process.stderr.read().decode()
        text += data
    return text.decode()


def ask(link: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, str]:
    where = urlsplit(link)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
    try:
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null"), answer.headers.get("Set-Cookie") or ""
    finally:
        connection.close()


def log_in(link: str) -> dict[str, Any]:
    status, me, cookie = ask(link, "POST", "/api/login", {"token": link.partition("#t=")[2]})
    assert status == 200 and "HttpOnly" in cookie
    found: dict[str, Any] = me
    return found


# -- up -----------------------------------------------------------------------------------------------


def test_up_prints_a_link_that_lets_one_in(ups: Shell) -> None:
    process = ups.start("up", env={"USER": "ada"})
    shown = read_until(process, "stop")
    link = LINK.search(shown)
    assert link is not None and "ostler is up at http://127.0.0.1:" in shown
    assert "\x1b" not in shown
    me = log_in(link[0])
    assert (me["name"], me["rights"], me["pid"]) == ("ada", "admin", process.pid)
    assert me["default_folder"] == str(ups.folder)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.decode()) == (0, "")


def test_up_as_json(ups: Shell) -> None:
    process = ups.start("up", "--json")
    facts = json.loads(read_until(process, "}"))
    assert facts.keys() == {"pid", "port", "url", "link", "state_folder"}
    assert (facts["pid"], facts["url"]) == (process.pid, f"http://127.0.0.1:{facts['port']}")
    assert facts["state_folder"] == str(state_of(ups))
    assert facts["link"].startswith(facts["url"] + "/#t=")


def test_a_second_up_is_refused_with_the_pid_of_the_first(ups: Shell) -> None:
    first = ups.start("up", "--json")
    url = json.loads(read_until(first, "}"))["url"]
    for args in (["up"], ["up", "--detach"], ["up", "--port", "1"]):
        ran = ups(*args)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert f"process {first.pid} at {url}" in ran.stderr and "ostler link" in ran.stderr
    assert log_in(ups("link").stdout.strip())["pid"] == first.pid
    assert not (state_of(ups) / "server.log").exists()  # it would be the first one's


def test_a_port_that_is_taken(ups: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for args in (["up", "--port", str(port)], ["up", "--detach", "--port", str(port)]):
            ran = ups(*args)
            assert (ran.returncode, ran.stdout) == (2, "")
            assert f"port {port} is taken by {os.getpid()} (" in ran.stderr
        ran = ups("up", env={"OSTLER_PORT": str(port)})
        assert (ran.returncode, ran.stdout) == (2, "")


def test_the_last_port_is_taken_again_if_it_is_free(ups: Shell) -> None:
    def start() -> int:
        ran = ups("up", "--detach", "--json")
        assert ran.returncode == 0, ran.stderr
        port: int = json.loads(ran.stdout)["port"]
        assert ups("down").returncode == 0
        return port

    port = start()
    assert start() == port
    with socket.create_server(("127.0.0.1", port)):
        other = start()
    assert other != port
    assert start() == other


def test_hosts_beyond_the_loopback_are_refused(ups: Shell) -> None:
    for host in ("0.0.0.0", "192.0.2.7", "::"):
        ran = ups("up", "--host", host)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert "--expose" in ran.stderr
    assert who_serves(state_of(ups)) is None


def test_allowed_origins_get_links_of_their_own(ups: Shell) -> None:
    process = ups.start(
        "up", "--json", "--allow-origin", "http://localhost:9000/", "--allow-origin", "https://a.example"
    )
    facts = json.loads(read_until(process, "}"))
    assert [link.partition("#")[0] for link in facts["links"]] == ["http://localhost:9000/", "https://a.example/"]
    assert ask(facts["link"], "GET", "/api/me", Host="a.example")[0] == 401
    assert ask(facts["link"], "GET", "/api/me", Host="b.example")[0] == 421
    ran = ups("up", "--allow-origin", "everybody")
    assert ran.returncode == 2 and "is not a valid origin" in ran.stderr


# -- detached -----------------------------------------------------------------------------------------


def test_detached_until_down(ups: Shell) -> None:
    ran = ups("up", "--detach")
    assert (ran.returncode, ran.stderr) == (0, "")
    link = LINK.search(ran.stdout)
    assert link is not None and "ostler down" in ran.stdout
    serves = who_serves(state_of(ups))
    assert serves is not None and link[0].startswith(serves.url)
    assert log_in(link[0])["pid"] == serves.pid
    log = state_of(ups) / "server.log"
    assert (stat.S_IMODE(log.stat().st_mode), log.read_text()) == (0o600, "")
    command = tree.command(serves.pid)
    assert " up " in command and link[0].partition("#t=")[2] not in command

    ran = ups("down")
    assert (ran.returncode, ran.stdout) == (0, f"stopped the server ({serves.pid})\n")
    assert tree.identity(serves.pid) is None and who_serves(state_of(ups)) is None
    ran = ups("down")
    assert (ran.returncode, ran.stdout) == (0, "no server is running here\n")


def test_a_server_that_cannot_start_says_why(ups: Shell) -> None:
    ups("sessions")
    (state_of(ups) / "ostler.db").write_bytes(b"this is no database, and long enough to look at" * 50)
    ran = ups("up", "--detach")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "ostler.db" in ran.stderr
    assert who_serves(state_of(ups)) is None


def test_a_package_of_our_name_in_the_folder_is_not_run(ups: Shell) -> None:
    (ups.folder / "ostler").mkdir()
    (ups.folder / "ostler" / "__init__.py").write_text("raise SystemExit('taken in')")
    argv = [sys.executable, "-P", "-m", "ostler", "up", "--detach"]
    ran = subprocess.run(argv, check=False, cwd=ups.folder, env=ups.environ, capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_work_goes_on_beside_the_server(ups: Shell) -> None:
    """`ostler run` in a shell, seen over HTTP."""
    ran = ups("up", "--detach", "--json")
    link = json.loads(ran.stdout)["link"]
    assert ups("run", "claude", "[[say:hello]]", "--name", "beside", "--quiet").stdout == "hello\n"
    bearer = ups("link", "--bearer", "--rights", "view").stdout.strip()
    status, found, _ = ask(link, "GET", "/api/sessions", Authorization=f"Bearer {bearer}")
    assert (status, [each["name"] for each in found["items"]]) == (200, ["beside"])


def test_open_hands_the_browser_no_token(ups: Shell, tmp_path: Path) -> None:
    """Arguments can be read by every user of the machine."""
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\necho "$@" > {seen}.new && mv {seen}.new {seen}\n')
    browser.chmod(0o755)
    ran = ups("up", "--detach", "--open", "--json", env={"BROWSER": str(browser)})
    assert (ran.returncode, ran.stderr) == (0, "")
    token = json.loads(ran.stdout)["link"].partition("#t=")[2]
    wait_until(seen.exists)
    page = state_of(ups) / "open.html"
    assert seen.read_text().strip() == page.as_uri()
    assert token in page.read_text() and stat.S_IMODE(page.stat().st_mode) == 0o600


def test_open_without_a_browser(ups: Shell) -> None:
    ran = ups("up", "--detach", "--open", env={"BROWSER": "/nowhere/browser", "PATH": "/nowhere"})
    assert ran.returncode == 0
    assert "no browser" in ran.stderr and LINK.search(ran.stdout)


# -- link ---------------------------------------------------------------------------------------------


def test_link_needs_a_server(ups: Shell) -> None:
    ran = ups("link")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "ostler: no server is running here. Start it: ostler up\n"


def test_links_and_tokens(ups: Shell) -> None:
    assert ups("up", "--detach").returncode == 0
    made = json.loads(ups("link", "--rights", "view", "--name", "Grace", "--json").stdout)
    assert made["rights"] == "view"
    me = log_in(made["link"])
    assert (me["name"], me["rights"]) == ("Grace", "view")
    assert ask(made["link"], "POST", "/api/login", {"token": made["link"].partition("#t=")[2]})[0] == 401

    token = ups("link", "--bearer", "--rights", "type", "--days", "7").stdout.strip()
    bearer = {"Authorization": f"Bearer {token}"}
    assert ask(made["link"], "GET", "/api/me", **bearer)[1]["rights"] == "type"
    assert ask(made["link"], "POST", "/api/links", {}, **bearer)[0] == 403

    told = ups("link", "--revoke-all")
    new = told.stdout.strip()
    assert (LINK.fullmatch(new) is not None, told.stderr) == (True, "all links, logins and tokens are revoked\n")
    assert ask(new, "GET", "/api/me", **bearer)[0] == 401
    assert log_in(new)["rights"] == "admin"
    assert json.loads(ups("link", "--revoke-all", "--json").stdout)["revoked"] is True
    assert "revoked" not in json.loads(ups("link", "--json").stdout)


def test_revoking_without_a_server(ups: Shell) -> None:
    ran = ups("link", "--revoke-all")
    assert (ran.returncode, ran.stdout) == (0, "all links, logins and tokens are revoked\n")
    assert json.loads(ups("link", "--revoke-all", "--json").stdout) == {"revoked": True}
    key = state_of(ups) / "server.key"
    before = key.read_bytes()
    ups("link", "--revoke-all")
    assert key.read_bytes() != before


@pytest.mark.parametrize(
    "args",
    [
        ["link", "--days", "3"],
        ["link", "--bearer", "--days", "0"],
        ["link", "--bearer", "--days", "nan"],
        ["link", "--rights", "root"],
        ["up", "--port", "0"],
        ["up", "--port", "65536"],
        ["up", "extra"],
    ],
)
def test_usage(ups: Shell, args: list[str]) -> None:
    ran = ups(*args)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("ostler: ")


def test_a_detached_server_logs_what_it_is_asked_to(ups: Shell) -> None:
    ran = ups("--log-level", "debug", "up", "--detach")
    assert (ran.returncode, ran.stderr) == (0, "")
    link = LINK.search(ran.stdout)
    assert link is not None
    log_in(link[0])
    log = state_of(ups) / "server.log"
    assert ": serving " in log.read_text() and link[0].partition("#t=")[2] not in log.read_text()
    ups("down")

    ran = ups("--log-file", "own.log", "up", "--detach")
    assert str(ups.folder / "own.log") in ran.stdout
    assert ": serving " in (ups.folder / "own.log").read_text()


@pytest.mark.parametrize("detach", [(), ("--detach",)])
@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--labels", "gpu"), "--labels, --as, --advertise and --ca need --join"),
        (("--tls-cert", "cert.pem"), "--tls-cert and --tls-key must be given together"),
    ],
)
def test_flags_that_need_others_are_a_usage_error(
    ups: Shell, detach: tuple[str, ...], flags: tuple[str, ...], complaint: str
) -> None:
    done = ups("up", *detach, *flags)
    assert (done.returncode, done.stderr) == (2, f"ostler: {complaint}. See: ostler up --help\n")
