"""Scenarios of the scripted agent: replies by prompt pattern, each a list of steps.

    [[reply]]
    match = "add (?P<what>\\\\w+)"        # first match wins; no match at all: always
    steps = [{think = "Easy."}, {write = {path = "{what}.txt", content = "here"}}, {say = "Added {what}."}]

A scenario is TOML, JSON, or a cassette; a prompt may also carry its steps itself: `[[say:hi]] [[exit:3]]`.
"""

from __future__ import annotations

import json
import os
import re

TYPE_CHECKING = False  # spares the import of typing: this file is part of the agent's start
if TYPE_CHECKING:
    from typing import Any

CASSETTE = "ostler_cassette"
# fmt: off
STEPS = frozenset((
    "ask", "crash", "double_fork", "echo", "exit", "exit_after_result", "fail", "flood", "garbage", "hear", "history",
    "hook", "ignore", "linger", "never_end", "notice", "plan", "read", "retry", "run", "say", "stderr", "stream",
    "structured", "think", "tool", "usage", "wait", "wait_for", "write",
))
# fmt: on
REPLY_KEYS = frozenset({"match", "turn", "steps", "session", "init"})
SCENARIO_KEYS = frozenset({"hooks", "reply", "cassette", "deaf", "steers", "tui", "version"})
# fmt: off
TUI_KEYS = frozenset((
    "start_delay", "dialog", "swallow_enter", "swallow_paste", "status", "titles", "hooks", "transcript",
))
# fmt: on
MARKER = re.compile(r"\[\[([a-z_]+)(?::(.*?))?\]\](?!\])", re.S)
# As in ostler.access, which imports typing: this agent must start fast.
ACCESS_LEVELS = ("read", "write", "full")
CONTENT = "written by the scripted agent\n"


class BadScenario(Exception):
    """The scenario cannot be played: said on stderr, exit 2."""


class BadCassette(Exception):
    """The cassette cannot be played: said on stderr, exit 1."""


def load(path: str) -> dict[str, Any]:
    """The scenario in a file, checked. A cassette becomes {"cassette": its path}."""
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise BadScenario(f"cannot read the scenario {path}: {error.strerror}") from None
    if is_cassette(raw):
        return {"cassette": os.path.abspath(path)}
    scenario = _parsed(path, raw)
    if not isinstance(scenario, dict):
        raise BadScenario(f"{path}: a scenario is a table with [[reply]] entries")
    if isinstance(scenario.get("cassette"), str):
        scenario["cassette"] = os.path.join(os.path.dirname(os.path.abspath(path)), scenario["cassette"])
    check(scenario, path)
    return scenario


def is_cassette(raw: bytes) -> bool:
    return raw.startswith(b'{"' + CASSETTE.encode())


def _parsed(path: str, raw: bytes) -> Any:
    try:
        text = raw.decode()
        if path.endswith(".json"):
            return json.loads(text)
        import tomllib

        return tomllib.loads(text)
    except ValueError as error:
        raise BadScenario(f"{path}: {error}") from None


def check(scenario: dict[str, Any], path: str) -> None:
    """Raises BadScenario for a key or step that is not known: a typing error must not pass as silence."""
    _known(scenario, SCENARIO_KEYS, path)
    _known(scenario.get("tui", {}), TUI_KEYS, f"{path}: tui")
    replies = scenario.get("reply", [])
    if not isinstance(replies, list):
        raise BadScenario(f"{path}: `reply` is a list of tables")
    for number, reply in enumerate(replies, 1):
        where = f"{path}: reply {number}"
        _known(reply, REPLY_KEYS, where)
        try:
            re.compile(reply.get("match", ""))
        except (re.error, TypeError) as error:
            raise BadScenario(f"{where}: match: {error}") from None
        for step in reply.get("steps", []):
            if not isinstance(step, dict) or len(step) != 1:
                raise BadScenario(f"{where}: a step is a table with one key, not {step!r}")
            _known(step, STEPS, where)


def _known(table: Any, keys: frozenset[str], where: str) -> None:
    if not isinstance(table, dict):
        raise BadScenario(f"{where}: a table is wanted, not {table!r}")
    for key in table:
        if key not in keys:
            raise BadScenario(f"{where}: unknown key {key!r}; known: {', '.join(sorted(keys))}")


def choose(scenario: dict[str, Any], prompt: str, turn: int) -> tuple[dict[str, Any], dict[str, str]] | None:
    """The first reply for this prompt in this turn (1 is the first), with its named groups."""
    for reply in scenario.get("reply", []):
        found = re.search(reply.get("match", ""), prompt)
        if found and reply.get("turn", turn) == turn:
            return reply, {name: text or "" for name, text in found.groupdict().items()}
    return None


def marked(prompt: str) -> list[dict[str, Any]]:
    """The steps that a prompt carries itself."""
    return [{name: _value(text)} for name, text in MARKER.findall(prompt) if name in STEPS]


def _value(text: str) -> Any:
    if text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            pass  # then it is text that begins like JSON
    return text


def filled(value: Any, groups: dict[str, str]) -> Any:
    """`{name}` in texts becomes the group of that name; other braces stay as they are."""
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda m: groups.get(m[1], m[0]), value)
    if isinstance(value, list):
        return [filled(item, groups) for item in value]
    if isinstance(value, dict):
        return {key: filled(item, groups) for key, item in value.items()}
    return value
