"""Who takes the turns of a session."""

from msgspec import Struct

from ostler.errors import OstlerError
from ostler.model import Session
from ostler.settings import Settings
from ostler.work.known_agents import agents_of, name_and_model


class Choice(Struct, frozen=True, kw_only=True):
    """Who takes a session's turns: an agent, a model, a profile, or none of them said."""

    agent: str
    model: str | None = None
    profile: str | None = None

    def fits(self, row: Session) -> bool:
        """Whether the session is one of this agent, and of this profile where one was named."""
        return self.agent == row.agent and self.profile in (None, row.profile)


def choose(settings: Settings, wanted: str | None) -> Choice:
    """By profile, name or model; without any, the default agent."""
    name = wanted or settings.default_agent
    if not name:
        raise OstlerError(
            "bad_request",
            "no agent was named and there is no default",
            f'Name one: ostler run claude "…" (agents: {", ".join(agents_of(settings))}), or set default_agent',
        )
    agent, model = name_and_model(settings, name)
    profile = name if name in settings.profiles and name not in agents_of(settings) else None
    return Choice(agent=agent, model=model, profile=profile)
