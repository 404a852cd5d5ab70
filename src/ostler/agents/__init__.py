"""WHAT to run and HOW to read it: one file or folder for each coding agent, all of it pure.

`AGENTS` has those that come with ostler, by name; settings and other packages have more of them
(see work/known_agents.py). `agent_for` chooses one by name or model.
"""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

from ostler.agents.adapter import Agent, Conversation
from ostler.agents.reader import Reader, decode
from ostler.errors import OstlerError, quoted

_FILES = {  # name → the module whose AGENT it is, in the order of lists and tables
    "claude": "claude.agent",
    "codex": "codex.agent",
    "gemini": "gemini.agent",
    "cursor": "cursor",
    "qwen": "qwen.agent",
    "opencode": "opencode.agent",
    "copilot": "copilot.agent",
    "script": "script.agent",
}


class BuiltIn(Mapping[str, Agent]):
    """The agents that come with ostler. The file of one is imported when it is first asked for: few turns need two."""

    def __init__(self) -> None:
        self._modules: dict[str, Any] = {}  # a turn asks for its agent seven times

    def __getitem__(self, name: str) -> Agent:
        if name not in self._modules:
            self._modules[name] = import_module(f"ostler.agents.{_FILES[name]}")
        agent: Agent = self._modules[name].AGENT
        return agent

    def __contains__(self, name: object) -> bool:
        return name in _FILES

    def __iter__(self) -> Iterator[str]:
        return iter(_FILES)

    def __len__(self) -> int:
        return len(_FILES)


AGENTS = BuiltIn()


def all_project_config() -> tuple[str, ...]:
    """Whatever any of them would take from a folder."""
    return tuple(dict.fromkeys(name for agent in AGENTS.values() for name in agent.project_config))


def all_project_config_above() -> tuple[str, ...]:
    """Whatever any of them would take from the folders above, too."""
    return tuple(dict.fromkeys(name for agent in AGENTS.values() for name in agent.project_config_above))


def agent_for(
    name_or_model: str, models: Mapping[str, str] | None = None, agents: Mapping[str, Agent] = AGENTS
) -> tuple[Agent, str | None]:
    """The agent of that name, or the one that serves that model, with the model if it was one.

    `models` (glob → agent name, from the settings) decides before the agents' own patterns.
    Raises not_found with the nearest names, or bad_request when two agents claim the model.
    """
    wanted = name_or_model.strip()
    if wanted in agents:
        return agents[wanted], None
    for pattern, name in (models or {}).items():
        if fnmatchcase(wanted.lower(), pattern.lower()):
            return _named(name, agents), wanted
    claims = [a for a in agents.values() if _fits(wanted, a.models) and not _fits(wanted, a.other_models)]
    if len(claims) == 1:
        return claims[0], _own_name(wanted)
    if claims:
        raise OstlerError(
            "bad_request",
            f"{quoted(wanted)} could be a model of {', '.join(a.name for a in claims)}",
            f"Say which: ostler run {claims[0].name} --model={wanted}",
        )
    return _named(wanted, agents), None


def _fits(model: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(model.lower(), pattern) for pattern in patterns)


def _own_name(model: str) -> str:
    """What agents call a model that was named in full, as Vertex does: `publishers/google/models/gemini-3-pro`."""
    return model.rpartition("models/")[2] if model.startswith(("models/", "publishers/", "projects/")) else model


def _named(name: str, agents: Mapping[str, Agent]) -> Agent:
    if name in agents:
        return agents[name]
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), agents, n=3, cutoff=0.5)
    raise OstlerError(
        "not_found",
        f"no agent or model is called {quoted(name)}",
        (f"Did you mean {' or '.join(near)}? " if near else "") + f"Agents: {', '.join(agents)}",
    )


__all__ = [
    "AGENTS",
    "Agent",
    "Conversation",
    "Reader",
    "agent_for",
    "all_project_config",
    "all_project_config_above",
    "decode",
]
