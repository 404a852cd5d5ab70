"""Hooks of the scripted agent, in claude's shape: `{"hooks": {"Stop": [{"hooks": [{"type": "command", …}]}]}}`.

A command reads the event as JSON on stdin, a `url` gets it as a POST; both may answer with JSON on stdout or in the
body. `$NAME` in a header stands for a variable. What fails is passed over, as the real CLIs do.
"""

from __future__ import annotations

import json
import os
import re

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from typing import Any

TIMEOUT = 60.0


class Hooks:
    def __init__(self, path: str | None, given: dict[str, Any], only: Any = True) -> None:
        """`given` is in each event; `only` names the events that are sent, or is False for none."""
        self._given = given
        self._only = only
        self._table: dict[str, Any] = {}
        if path:
            with open(path, encoding="utf-8") as file:
                self._table = json.load(file).get("hooks", {})

    def begin_prompt(self) -> None:
        """All events of one prompt have its id, as claude's do."""
        self._given["prompt_id"] = os.urandom(8).hex()

    def fire(self, event: str, **payload: Any) -> list[dict[str, Any]]:
        """Sends the event to each hook that wants it; their answers."""
        if not self._table:
            return []
        if self._only is False or (isinstance(self._only, list) and event not in self._only):
            return []
        body = json.dumps({**self._given, "hook_event_name": event, **payload}).encode()
        wanted = [hook for group in self._table.get(event, []) for hook in group.get("hooks", [])]
        return [answer for hook in wanted if (answer := _answer(hook, body))]


def denial(answers: list[dict[str, Any]]) -> str | None:
    """Why a PreToolUse hook denies the call, or None."""
    for answer in answers:
        said = answer.get("hookSpecificOutput")
        if isinstance(said, dict) and said.get("permissionDecision") == "deny":
            return str(said.get("permissionDecisionReason") or "a hook said no")
    return None


def _answer(hook: dict[str, Any], body: bytes) -> dict[str, Any]:
    try:
        raw = _post(hook, body) if hook.get("type") == "http" else _run(hook["command"], body)
        answer = json.loads(raw) if raw.strip() else {}
    except (OSError, ValueError, KeyError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _run(command: str, body: bytes) -> bytes:
    import subprocess

    argv, null = ["/bin/sh", "-c", command], subprocess.DEVNULL
    try:
        done = subprocess.run(argv, input=body, stdout=subprocess.PIPE, stderr=null, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return b""
    return done.stdout


def _post(hook: dict[str, Any], body: bytes) -> bytes:
    from urllib.request import Request, urlopen

    headers = {name: _filled(value) for name, value in hook.get("headers", {}).items()}
    request = Request(hook["url"], body, {**headers, "Content-Type": "application/json"})
    with urlopen(request, timeout=TIMEOUT) as answer:
        raw: bytes = answer.read()
        return raw


def _filled(value: str) -> str:
    return re.sub(r"\$(\w+)", lambda found: os.environ.get(found[1], ""), value)
