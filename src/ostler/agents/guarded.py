"""What no edit under `write` may change, though it lies in the folder: it would run programs, or widen what agents may.

Hooks and configuration of git, settings of the agents (with their hooks, plugins, MCP servers and rules), and ostler's
own. One list for all agents: a repository that one of them prepares may be opened by another.
"""

import unicodedata
from fnmatch import fnmatchcase
from functools import cache

from ostler.agents import AGENTS, Agent


def settings_of(agent: Agent) -> tuple[str, ...]:
    """What it takes from a folder, by its adapter; all of a folder that is the agent's own: `.claude`."""
    own = f".{agent.name}"
    return tuple(
        dict.fromkeys(own if name.startswith(f"{own}/") else name for name in (*agent.project_config, *agent.guards))
    )


@cache
def guarded_patterns() -> tuple[list[str], ...]:
    of_agents = (name.casefold() for agent in AGENTS.values() for name in settings_of(agent))
    names = dict.fromkeys((".git", "ostler.toml", ".ostler", *of_agents))
    return tuple(name.split("/") for name in names)


def is_guarded(path: str) -> bool:
    """Whether this path of a folder is one of them, or beneath one, however deep: also of a folder's subfolders."""
    parts = [_plain(part) for part in path.split("/") if part not in ("", ".")]
    longest = max(map(len, guarded_patterns()))
    beginnings = [parts[at : at + longest] for at in range(len(parts))]
    return any(_begins(each, pattern) for each in beginnings for pattern in guarded_patterns())


def _begins(parts: list[str], pattern: list[str]) -> bool:
    return len(parts) >= len(pattern) and all(map(fnmatchcase, parts, pattern))


def _plain(name: str) -> str:
    """As a file system may take it that knows no case, ignores invisible characters, or drops dots at the end."""
    seen = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return seen.rstrip(" .").casefold() or name
