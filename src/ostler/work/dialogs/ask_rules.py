"""Which asks need nobody: rules of the settings, first match wins; and what no rule and no person may allow."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from ostler.agents import Agent
from ostler.agents.guarded import is_guarded
from ostler.agents.tool_input import command_of, paths_of
from ostler.agents.tools import unknown_tool, with_category
from ostler.errors import OstlerError, quoted
from ostler.model import Asked, Turn
from ostler.settings import AskRule, Ruling

_STRICTNESS: tuple[Ruling, ...] = ("deny", "ask", "allow")

# What makes of one command two, or of a word another: no pattern can vouch for what follows.
_SHELL = r"[;&|`<>\n\r(){}\\]|\$[({\w]"


def decide(asked: Asked, *, rules: Sequence[AskRule], turn: Turn, agent: Agent) -> tuple[Ruling, str]:
    """What needs nobody: an edit that leaves the folder, or of what is guarded, is beyond `write`; then rules."""
    if turn.access == "write" and beyond_write(asked, turn.folder):
        return "deny", "access write"
    return rule_for(rules, asked, agent=agent, folder=turn.folder)


def rule_for(rules: Sequence[AskRule], asked: Asked, *, agent: Agent, folder: str) -> tuple[Ruling, str]:
    """What the first rule that matches says, and which one it was; without one, a person is asked.

    What goes by two words, or does two things, gets the strictest answer: a file that an edit adds is a `write`, too.
    """
    asked = with_category(asked, agent.tools)
    found = [
        [each for word in words if (each := _first_match(rules, asked, word, agent.name, folder)) is not None]
        for words in words_of(asked)
    ]
    return _strictest([_strictest(rulings) for rulings in found])


def words_of(asked: Asked) -> list[tuple[str, ...]]:
    """ostler's words for each thing that it does: one edit may add a file and change another (codex's patches do)."""
    if asked.category != "edit" or all(file.change != "add" for file in asked.files):
        return [(asked.category,)]
    return [*dict.fromkeys(("edit", "write") if file.change == "add" else ("edit",) for file in asked.files)]


def _strictest(rulings: Sequence[tuple[Ruling, str]]) -> tuple[Ruling, str]:
    return min(rulings, key=lambda ruling: _STRICTNESS.index(ruling[0]), default=("ask", ""))


def _first_match(
    rules: Sequence[AskRule], asked: Asked, word: str, agent: str, folder: str
) -> tuple[Ruling, str] | None:
    for number, rule in enumerate(rules, 1):
        if _matches(rule, asked, word, agent, folder):
            return rule.answer, f"rule {number}"
    return None


def check_rules(rules: Sequence[AskRule], agents: Iterable[Agent], more: Callable[[], Iterable[Agent]] = tuple) -> None:
    """Raises bad_request for a rule about a tool that no agent has: it would be passed over in silence.

    `more` gives further agents, which are looked at only for a tool that the others do not have.
    """
    for number, rule in enumerate(rules, 1):
        if rule.tool and _unknown(rule, agents) and (hint := _unknown(rule, (*agents, *more()))):
            whose = f"{rule.agent} has no tool" if rule.agent else "no agent has a tool"
            raise OstlerError("bad_request", f"asks.{number}.tool: {whose} {quoted(rule.tool)}", hint)


def _unknown(rule: AskRule, agents: Iterable[Agent]) -> str:
    return unknown_tool(rule.tool, [agent for agent in agents if fnmatchcase(agent.name, rule.agent or "*")])


def _matches(rule: AskRule, asked: Asked, word: str, agent: str, folder: str) -> bool:
    if not fnmatchcase(agent, rule.agent or "*"):
        return False
    own = asked.tool if asked.tool != asked.category else word  # by ACP it may be told by ostler's word alone
    if rule.tool and not any(fnmatchcase(name, rule.tool) for name in (own, word)):
        return False
    if rule.command and not _command_matches(rule, command_of(asked.input)):
        return False
    return not rule.path or _paths_match(rule, paths_of(asked), folder)


def _command_matches(rule: AskRule, command: str) -> bool:
    """To allow, the whole of a plain command has to fit; to deny or ask, any part of any command."""
    if not command:
        return False
    if rule.answer == "allow":
        return not re.search(_SHELL, command) and fnmatchcase(command.strip(), rule.command)
    parts = (command, *re.split(r"[;&|\n\r(){}`]+|\$\(", command))
    return any(fnmatchcase(part.strip(), rule.command) for part in parts)


def _paths_match(rule: AskRule, paths: Sequence[str], folder: str) -> bool:
    """To allow, all paths have to fit, beneath the folder; to deny or ask, one of them. Links count by where they lead,
    too.
    """
    if not paths:
        return False
    root = os.path.realpath(folder)
    fits = [_path_matches(rule.path, inside, folder) for path in paths for inside in _names_of(path, folder, root)]
    return all(fits) if rule.answer == "allow" else any(fits)


def _path_matches(pattern: str, inside: str, folder: str) -> bool:
    if os.path.isabs(pattern):
        return fnmatchcase(os.path.normpath(os.path.join(folder, inside)), pattern)
    return not _leads_out(inside) and fnmatchcase(inside, pattern)


def beyond_write(asked: Asked, folder: str) -> bool:
    """Whether a file that it would change lies elsewhere or is guarded, by a link too: several agents follow them."""
    root = os.path.realpath(folder)
    return any(_is_beyond(change.path, folder, root) for change in asked.files)


def _is_beyond(path: str, folder: str, root: str) -> bool:
    named, real = _names_of(path, folder, root)
    return _leads_out(real) or is_guarded(real) or (not _leads_out(named) and is_guarded(named))


def _names_of(path: str, folder: str, root: str) -> tuple[str, str]:
    """From the folder, whose real path is `root`: as it is named, and where it really lies."""
    whole = os.path.join(folder, path)
    return os.path.relpath(os.path.normpath(whole), folder), os.path.relpath(os.path.realpath(whole), root)


def _leads_out(inside: str) -> bool:
    return inside.split("/", 1)[0] == ".."
