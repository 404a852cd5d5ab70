"""WHAT to run and HOW to read it: one file for each coding agent, all of it pure.

`AGENTS` is the dict of all of them: `name in AGENTS`, `AGENTS[name]`, `AGENTS[name] = mine`.
`agent_for` chooses one by name or model.
"""

import difflib
from collections.abc import Mapping
from fnmatch import fnmatchcase

from ostler.agents import claude, codex, copilot, cursor, gemini, opencode, qwen, script
from ostler.agents.adapter import Agent, Conversation, Reader, decode
from ostler.errors import OstlerError

_BUILT_IN = (claude, codex, gemini, cursor, qwen, opencode, copilot, script)
AGENTS: dict[str, Agent] = {module.AGENT.name: module.AGENT for module in _BUILT_IN}
PLUG_IN_PROBLEMS: dict[str, str] = {}  # entry point → why it could not be used
_plugged_in = False


def plug_in() -> None:
    """Adds the agents of the entry point `ostler.agents`, once; built-in names cannot be taken over."""
    global _plugged_in
    if _plugged_in:
        return
    _plugged_in = True
    from importlib.metadata import entry_points

    for point in entry_points(group="ostler.agents"):
        try:
            agent = point.load()
            if not isinstance(agent, Agent):
                raise TypeError(f"{point.value} is no ostler.agents.Agent")
            if agent.name in AGENTS:
                raise ValueError(f"there is an agent named {agent.name!r} already")
        except Exception as error:  # whatever a foreign package does, the other agents stay
            PLUG_IN_PROBLEMS[point.name] = str(error) or type(error).__name__
        else:
            AGENTS[agent.name] = agent


def agent_for(name_or_model: str, models: Mapping[str, str] | None = None) -> tuple[Agent, str | None]:
    """The agent of that name, or the one that serves that model, with the model if it was one.

    `models` (glob → agent name, from the settings) decides before the agents' own patterns.
    Raises not_found with the nearest names, or bad_request when two agents claim the model.
    """
    wanted = name_or_model.strip()
    if wanted in AGENTS:
        return AGENTS[wanted], None
    plug_in()
    if wanted in AGENTS:
        return AGENTS[wanted], None
    for pattern, name in (models or {}).items():
        if fnmatchcase(wanted.lower(), pattern.lower()):
            return _named(name), wanted
    claims = [a for a in AGENTS.values() if any(fnmatchcase(wanted.lower(), p) for p in a.models)]
    if len(claims) == 1:
        return claims[0], wanted
    if claims:
        raise OstlerError(
            "bad_request",
            f"{wanted!r} could be a model of {', '.join(a.name for a in claims)}",
            f"Say which: ostler run {claims[0].name} --model={wanted}",
        )
    return _named(wanted), None


def _named(name: str) -> Agent:
    if name in AGENTS:
        return AGENTS[name]
    near = difflib.get_close_matches(name.lower(), AGENTS, n=3, cutoff=0.5)
    raise OstlerError(
        "not_found",
        f"no agent or model is called {name!r}",
        (f"Did you mean {' or '.join(near)}? " if near else "") + f"Agents: {', '.join(AGENTS)}",
    )


__all__ = ["AGENTS", "Agent", "Conversation", "Reader", "agent_for", "decode", "plug_in"]
