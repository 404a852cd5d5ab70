"""What the scripted agent keeps in its home: a file for each conversation, a line for each launch."""

from __future__ import annotations

import json
import os
import re
import time

TYPE_CHECKING = False  # spares the import of typing: this file is part of the agent's start
if TYPE_CHECKING:
    from typing import Any


class UnknownSession(Exception):
    """No such conversation, or an id that is taken: said on stderr, exit 1."""


class Memory:
    """The conversations under one home folder: NDJSON, a head line, then prompts, answers, and records of a TUI."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.history: list[str] = []  # the earlier prompts of the open conversation
        self.keeps = True  # what is said; if not, a conversation is its head alone
        self._path = ""
        os.makedirs(os.path.join(home, "sessions"), mode=0o700, exist_ok=True)

    def open(self, chosen: str | None, resume: str | None, fork: bool) -> str:
        """Begins, resumes or forks a conversation; returns its id."""
        earlier: list[dict[str, Any]] = []
        if resume is not None:
            earlier = self._read(resume)
        self.history = [line["prompt"] for line in earlier if "prompt" in line]
        if resume is not None and not fork:
            self._path = self._file(resume)
            return resume
        session = chosen or _new_id()
        self._path = self._file(session)
        if os.path.exists(self._path):
            raise UnknownSession(f"session {session} is already in use")
        self._append({"session": session, "folder": os.getcwd(), "at": time.time()})
        for line in earlier[1:]:
            self._append(line)
        return session

    @property
    def path(self) -> str:
        """The file of the open conversation."""
        return self._path

    def lines(self, session: str) -> list[dict[str, Any]]:
        """What was said in a conversation: prompts and texts, oldest first, without the records of a TUI."""
        return [line for line in self._read(session)[1:] if "kind" not in line and "type" not in line]

    def all(self) -> list[dict[str, Any]]:
        """Every conversation, the last that began first: `sessionId`, `cwd`, `title`, `updatedAt`."""
        found = []
        for name in os.listdir(os.path.join(self.home, "sessions")):
            id = name.removesuffix(".ndjson")
            head, *lines = self._read(id)
            title = next((line["prompt"] for line in lines if "prompt" in line), "")
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(head["at"]))
            found.append((head["at"], {"sessionId": id, "cwd": head["folder"], "title": title, "updatedAt": at}))
        return [told for _, told in sorted(found, key=lambda each: each[0], reverse=True)]

    def remember(self, **line: Any) -> None:
        if self.keeps:
            self._append(line)

    def launched(self, argv: list[str], session: str, prompt: str) -> None:
        """One line for each turn that was begun: `ostler.testing.launches` reads them."""
        line = {
            "pid": os.getpid(),
            "argv": argv,
            "folder": os.getcwd(),
            "session": session,
            "sha256": _sha256(prompt.encode("utf-8", "replace")),
            "prompt": prompt[:200],
            "at": time.time(),
        }
        append_line(os.path.join(self.home, "launches.ndjson"), line)

    def _file(self, session: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}", session):
            raise UnknownSession(f"{session!r} is no session id")
        return os.path.join(self.home, "sessions", f"{session}.ndjson")

    def _read(self, session: str) -> list[dict[str, Any]]:
        try:
            with open(self._file(session), encoding="utf-8") as file:
                return [json.loads(line) for line in file]
        except FileNotFoundError:
            raise UnknownSession(f"no session {session} found") from None

    def _append(self, line: dict[str, Any]) -> None:
        append_line(self._path, line)


def append_line(path: str, line: dict[str, Any]) -> None:
    """Appends in one write, so that lines of several processes do not mix."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, json.dumps(line).encode() + b"\n")
    finally:
        os.close(fd)


def _new_id() -> str:
    digits = os.urandom(16).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _sha256(data: bytes) -> str:
    """By Python's own module where it has that name: hashlib loads OpenSSL, a tenth of the agent's start."""
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256
    digest: str = sha256(data).hexdigest()
    return digest
