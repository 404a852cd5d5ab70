"""WHAT to run and HOW to read it: one file for each coding agent, all of it pure.

`AGENTS` is the dict of all of them; `agent_for` chooses one by name or model.
"""

import difflib
import fnmatch
import importlib
from collections.abc import Mapping

from ostler.agents.adapter import Agent, Conversation, Reader, decode
from ostler.errors import OstlerError

_BUILT_IN = ("claude", "codex", "gemini", "cursor", "qwen", "opencode", "copilot", "script")

AGENTS: dict[str, Agent] = {}
for _name in _BUILT_IN:
    try:
        AGENTS[_name] = importlib.import_module(f"ostler.agents.{_name}").AGENT
    except ModuleNotFoundError:
        pass


def agent_for(name_or_model: str, models: Mapping[str, str] | None = None) -> tuple[Agent, str | None]:
    """The agent of that name, or the one that serves that model, with the model if it was one.

    `models` (glob → agent name, from the settings) decides before the agents' own patterns.
    Raises not_found with the nearest names, or bad_request when two agents claim the model.
    """
    wanted = name_or_model.strip()
    if wanted in AGENTS:
        return AGENTS[wanted], None
    for pattern, name in (models or {}).items():
        if fnmatch.fnmatchcase(wanted.lower(), pattern.lower()):
            return _named(name), wanted
    claims = [a for a in AGENTS.values() if any(fnmatch.fnmatchcase(wanted.lower(), p) for p in a.models)]
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


__all__ = ["AGENTS", "Agent", "Conversation", "Reader", "agent_for", "decode"]
