"""Tools in ostler's words: what every agent calls its own, by the one table that its adapter has.

The words (`TOOL_WORDS`) stand for what a tool does to the machine. A tool that fits none keeps the agent's own name.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from msgspec import structs

from ostler.agents.adapter import Agent
from ostler.model import TOOL_WORDS, AnyEvent, Asked, ToolStarted

Named = TypeVar("Named", ToolStarted, Asked)
ToolNames = Mapping[str, Sequence[str]]


def category_of(name: str, tools: ToolNames, otherwise: str = "") -> str:
    """ostler's word for a tool; for one that the table does not have `otherwise`, or else its own name."""
    return next((word for word, names in tools.items() if _fits(name, names)), otherwise or name)


def with_category(event: Named, tools: ToolNames) -> Named:
    """The event with ostler's word for its tool, which an adapter may have told already."""
    name = event.name if isinstance(event, ToolStarted) else event.tool
    return structs.replace(event, category=category_of(name, tools, event.category))


def with_categories(events: Iterable[AnyEvent], tools: ToolNames) -> list[AnyEvent]:
    named: list[AnyEvent] = []
    for event in events:
        match event:
            case ToolStarted():
                named.append(with_category(event, tools))
            case Asked():
                named.append(with_category(event, tools))
            case _:
                named.append(event)
    return named


def unknown_tool(pattern: str, agents: Iterable[Agent]) -> str:
    """Why a pattern can fit no tool of these agents, with the nearest one that they have; "" where it can.

    Tools of MCP servers are called as their servers like it: what is made of several words may be one of those,
    unless it is all but the name of a known tool. An agent without a table may have any.
    """
    names = {*TOOL_WORDS}
    for agent in agents:
        if not agent.tools:
            return ""
        names |= {*agent.own_tools, *(name for each in agent.tools.values() for name in each)}
    if any(fnmatchcase(name, pattern) or fnmatchcase(pattern, name) for name in names):
        return ""
    from difflib import get_close_matches

    near = next(iter(get_close_matches(pattern, sorted(names), n=1, cutoff=0.75)), "")
    if not near and re.search(r"\w[_.\-*]+\w", pattern):
        return ""
    return f"Did you mean {near}?" if near else f"ostler's words are {', '.join(TOOL_WORDS)}"


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)
