"""Which asks need nobody: rules of the settings, first match wins; and what no rule and no person may allow."""

import os
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from ostler.settings import AskRule
from ostler.words import Asked

Ruling = Literal["allow", "deny", "ask"]

_PATHS = ("file_path", "filePath", "path", "absolute_path", "notebook_path")
_COMMANDS = ("command", "cmd")
# What makes of one command two, or of a word another: no pattern can vouch for what follows.
_SHELL = re.compile(r"[;&|`<>\n\r(){}\\]|\$[({\w]")


def rule_for(
    rules: Sequence[AskRule], asked: Asked, *, agent: str, folder: str, tools: Mapping[str, tuple[str, ...]]
) -> tuple[Ruling, str]:
    """What the first rule that matches says, and which one it was; without one, a person is asked."""
    for number, rule in enumerate(rules, 1):
        if _matches(rule, asked, agent, folder, tools):
            return rule.answer, f"rule {number}"
    return "ask", ""


def _matches(rule: AskRule, asked: Asked, agent: str, folder: str, tools: Mapping[str, tuple[str, ...]]) -> bool:
    if not fnmatchcase(agent, rule.agent or "*"):
        return False
    if rule.tool and not any(fnmatchcase(asked.tool, name) for name in (rule.tool, *tools.get(rule.tool, ()))):
        return False
    if rule.command and not _command_matches(rule, command_of(asked.input)):
        return False
    return not rule.path or _paths_match(rule, paths_of(asked), folder)


def _command_matches(rule: AskRule, command: str) -> bool:
    """To allow, the whole of a plain command has to fit; to deny or ask, any part of any command."""
    if not command:
        return False
    if rule.answer == "allow":
        return not _SHELL.search(command) and fnmatchcase(command.strip(), rule.command)
    parts = (command, *re.split(r"[;&|\n\r(){}`]+|\$\(", command))
    return any(fnmatchcase(part.strip(), rule.command) for part in parts)


def _paths_match(rule: AskRule, paths: Sequence[str], folder: str) -> bool:
    """To allow, all paths have to fit, beneath the folder; to deny or ask, one of them."""
    if not paths:
        return False
    fits = [_path_matches(rule.path, path, folder) for path in paths]
    return all(fits) if rule.answer == "allow" else any(fits)


def _path_matches(pattern: str, path: str, folder: str) -> bool:
    whole = os.path.normpath(os.path.join(folder, path))
    inside = os.path.relpath(whole, folder)
    if os.path.isabs(pattern):
        return fnmatchcase(whole, pattern)
    return not inside.startswith("..") and fnmatchcase(inside, pattern)


def leads_out(asked: Asked, folder: str) -> bool:
    """Whether a file that it would change lies elsewhere, by a link too: several agents follow them."""
    root = os.path.realpath(folder).rstrip("/") + "/"
    return not all(os.path.realpath(os.path.join(folder, change.path)).startswith(root) for change in asked.files)


def command_of(input: Any) -> str:
    """The command that a tool call is about."""
    if not isinstance(input, dict):
        return ""
    found = next((value for name in _COMMANDS if (value := input.get(name))), "")
    if isinstance(found, list):
        return " ".join(str(part) for part in found)
    return found if isinstance(found, str) else ""


def paths_of(asked: Asked) -> list[str]:
    """The files that it is about."""
    found = [change.path for change in asked.files]
    if isinstance(asked.input, dict):
        found += [value for name in _PATHS if isinstance(value := asked.input.get(name), str) and value]
    return found
