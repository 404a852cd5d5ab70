"""Where the hooks of a turn call, and what they find in their environment."""

import logging

from ostler.agents import Agent
from ostler.errors import OstlerError
from ostler.model import Callback, Host, Turn
from ostler.work.transports.choose import tui_of
from ostler.work.transports.facts import TRANSPORT_FACTS
from ostler.work.turns.setup import Setup

_log = logging.getLogger(__name__)


async def callback_of(setup: Setup, turn: Turn, server: Agent) -> Callback | None:
    """Where the hooks of this launch call. Raises unsupported where somebody is to be asked and cannot be.

    An agent's own screen has them unless somebody said no: they tell its end best. A dialog tells and asks by itself.
    """
    facts = TRANSPORT_FACTS[turn.transport]
    in_tui = tui_of(server, turn.transport, setup.settings.tmux_shows) is not None
    if facts.is_dialog or not (turn.hooks or (turn.hooks is None and in_tui)):
        return None
    if server.hooks is None or setup.callbacks is None or turn.lean:
        if turn.hooks == "ask" or facts.needs_hooks:
            able = ", ".join(agent.name for agent in setup.agents.values() if agent.hooks)
            message = f"{server.name} has no hooks that can ask" + (" with `lean`" if server.hooks else "")
            raise OstlerError("unsupported", message, f"Use --dialog, or one of: {able}")
        return None
    try:
        return await setup.callbacks().callback(turn, setup.settings)
    except OstlerError as error:
        if turn.hooks is not None:
            raise
        _log.info("turn %s: it has no hooks: %s", turn.id, error)
        return None


def notices_without_hooks(turn: Turn, host: Host) -> tuple[str, ...]:
    if not turn.hooks or TRANSPORT_FACTS[turn.transport].is_dialog or host.callback is not None:
        return ()
    why = "`lean` leaves hooks out" if turn.lean else f"{turn.agent} has no hooks that ostler can use"
    return (f"{why}: this turn has none",)


def hook_environment(turn: Turn, callback: Callback | None) -> dict[str, str]:
    """What hooks find in their environment, the user's own too. A process that stays for further turns names none."""
    if callback is None:
        return {}
    return {
        "OSTLER_CALLBACK_URL": callback.url,
        "OSTLER_CALLBACK_TOKEN": callback.token,
        "OSTLER_SESSION": turn.session,
        **({"OSTLER_TURN": turn.id} if not TRANSPORT_FACTS[turn.transport].stays else {}),
        **({"OSTLER_API_URL": callback.api_url} if callback.api_url else {}),
    }
