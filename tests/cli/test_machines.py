"""`ostler up --join` and `ostler machines` as users have them: processes with state folders of their own."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.conftest import Shell
from machines.conftest import database, postgres  # noqa: F401
from waiting import wait_until


@pytest.fixture
def shells(tmp_path: Path) -> Iterator[list[Shell]]:
    made = []
    for name in ("hawk", "owl"):
        (tmp_path / name).mkdir()
        made.append(Shell(tmp_path / name))
    yield made
    for shell in made:
        for process in shell.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def join(shell: Shell, url: str, name: str, *more: str) -> "subprocess.Popen[bytes]":
    process = shell.start("up", "--json", "--as", name, *more, env={"OSTLER_JOIN": url})
    assert process.stdout is not None and process.stderr is not None
    line = b""
    while not line.rstrip().endswith(b"}"):
        data = os.read(process.stdout.fileno(), 65536)
        assert data, process.stderr.read().decode()
        line += data
    return process


def listed(shell: Shell, url: str) -> dict[str, dict[str, Any]]:
    ran = shell("machines", "--join", url, "--json")
    assert ran.returncode == 0, ran.stderr
    return {each["name"]: each for each in json.loads(ran.stdout)}


def test_machines_join_are_listed_and_leave(shells: list[Shell], database: str) -> None:  # noqa: F811
    hawk, owl = shells
    subprocess.run(["git", "init", "-q"], cwd=hawk.folder, check=True)
    origin = "https://me:of-oats-and-hay@host/own/er.git"
    subprocess.run(["git", "remote", "add", "origin", origin], cwd=hawk.folder, check=True)
    first = join(hawk, database, "hawk", "--labels", "gpu, big,gpu")
    second = join(owl, database, "owl")

    with psycopg.connect(database, autocommit=True) as db:
        told = 'SELECT 1 FROM ostler.machines WHERE facts LIKE \'%%"name":"script"%%\''
        wait_until(lambda: len(list(db.execute(told))) == 2)
    both = listed(owl, database)
    assert {name: each["state"] for name, each in both.items()} == {"hawk": "live", "owl": "live"}
    assert both["hawk"]["labels"] == ["gpu", "big"]
    assert both["hawk"]["folders"] == [{"path": str(hawk.folder), "remote": "host/own/er"}]
    assert both["hawk"]["url"].startswith("http://127.0.0.1:") and both["hawk"]["version"]
    assert "script" in {agent["name"] for agent in both["hawk"]["agents"]}

    # Without an address, the server of this state folder is asked.
    shown = hawk("machines")
    assert "hawk (here)" in shown.stdout and "owl" in shown.stdout and "gpu, big" in shown.stdout, shown.stderr

    # What is shared of a session: no prompt, no answer. Its id is nobody else's.
    ran = hawk("run", "script", "--name", "seen", "--json", "the secret of the stable")
    assert ran.returncode == 0, ran.stderr
    assert len(json.loads(ran.stdout)["session"]) >= 10
    with psycopg.connect(database, autocommit=True) as db:
        assert wait_until(lambda: list(db.execute("SELECT 1 FROM ostler.sessions WHERE name = 'seen'")))
        everything = str([list(db.execute(f"SELECT * FROM ostler.{table}")) for table in ("machines", "sessions")])
    assert "stable" not in everything and "of-oats" not in everything

    drained = hawk("machines", "--join", database, "--drain", "owl", "--json")
    assert {each["name"]: each["state"] for each in json.loads(drained.stdout)} == {"hawk": "live", "owl": "draining"}
    assert hawk("machines", "--join", database, "--resume", "heron").returncode == 2

    second.send_signal(signal.SIGTERM)
    second.wait(timeout=60)
    assert listed(hawk, database)["owl"]["state"] == "gone"
    refused = hawk("machines", "--join", database, "--forget", "hawk")
    assert refused.returncode == 1 and "hawk is live" in refused.stderr
    assert hawk("machines", "--join", database, "--forget", "owl").returncode == 0
    assert listed(hawk, database).keys() == {"hawk"}
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=60) == 0


def test_what_cannot_be_joined_is_said_before_anything_is_served(shells: list[Shell], tmp_path: Path) -> None:
    shell = shells[0]
    cases: dict[tuple[str, ...], str] = {
        ("--join", "mysql://of-oats@x"): "address of a Postgres database",
        ("--labels", "gpu"): "need --join",
        ("--join", "postgres://x/y", "--host", "0.0.0.0", "--expose"): "--advertise http://ADDRESS:PORT",
        ("--join", "postgres://x/y", "--advertise", "nonsense"): "'nonsense' is not a valid origin",
    }
    for args, words in cases.items():
        ran = shell("up", *args)
        assert (ran.returncode, words in ran.stderr) == (2, True), ran.stderr
        assert "oats" not in ran.stderr
    nowhere = shell("up", "--join", f"postgres:///x?host={tmp_path}")
    assert nowhere.returncode == 1 and "the directory (Postgres) cannot be used" in nowhere.stderr
    alone = shell("machines")
    assert alone.returncode == 2 and "ostler up --join URL" in alone.stderr
