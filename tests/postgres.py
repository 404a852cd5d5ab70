"""A real Postgres for tests: Debian's, with a folder of its own, reached by a unix socket."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

from needs import POSTGRES
from waiting import wait_until

_databases = count(1)


class Postgres:
    """One server, which can be stopped and started again. Each test has a database of its own."""

    def __init__(self, folder: Path, user: str | None) -> None:
        self.folder, self._user = folder, user
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")

    def _run(self, program: str, *args: str) -> None:
        done = subprocess.run(
            [f"{POSTGRES}/{program}", *args], capture_output=True, check=False, user=self._user, cwd=self.folder
        )
        assert done.returncode == 0, done.stderr.decode()

    def start(self) -> None:
        quick = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "16MB", "max_connections": "60"}
        given = [word for name, value in quick.items() for word in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [f"{POSTGRES}/postgres", "-D", f"{self.folder}/data", "-k", str(self.folder), "-h", "", *given],
                stdout=log,
                stderr=log,
                user=self._user,
                cwd=self.folder,
            )
        wait_until(self._answers)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """INT ends connections in order, QUIT at once."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=60)
            self._process = None

    def new_database(self) -> str:
        """The address of an empty one."""
        name = f"d{next(_databases)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Postgres refuses to run as root: then it runs as the user that its package has made."""
    folder = Path(tempfile.mkdtemp(prefix="ostler-pg-"))
    try:
        user = "postgres" if os.geteuid() == 0 else None
        if user is not None:
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        server = Postgres(folder, user)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
