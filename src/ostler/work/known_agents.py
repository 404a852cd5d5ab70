"""The agents that settings know: ostler's own, those of their `[acp]` and `[agents]`, and those of plug-ins."""

from collections.abc import Iterator, Mapping

from ostler.agents import AGENTS, Agent, agent_for
from ostler.errors import OstlerError, quoted
from ostler.settings import Profile, Settings
from ostler.work.plug_ins import plug_ins

# Those who make agents of settings are imported when settings name one.


class KnownAgents(Mapping[str, Agent]):
    """Agents by name. Nothing is shared: what one set of settings names, no other knows.

    Plug-ins are loaded when a name is asked for that nobody else has, or when all are listed.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __getitem__(self, name: str) -> Agent:
        if name in AGENTS:
            return AGENTS[name]
        if name in self.settings.acp:
            from ostler.agents.acp.any_agent import agent_of

            return agent_of(name, self.settings.acp[name])
        if name in self.settings.agents:
            from ostler.agents.plain import plain_agent

            return plain_agent(name, self.settings.agents[name])
        return plug_ins().agents[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*AGENTS, *self.settings.acp, *self.settings.agents, *plug_ins().agents)))

    def __len__(self) -> int:
        return len(tuple(iter(self)))

    def own(self) -> list[Agent]:
        """Those that need no plug-in."""
        return [self[name] for name in (*AGENTS, *self.settings.acp, *self.settings.agents)]

    def of_plug_ins(self) -> list[Agent]:
        return list(plug_ins().agents.values())


_last: KnownAgents | None = None  # a turn asks for those of the same settings several times


def agents_of(settings: Settings) -> KnownAgents:
    """Raises exists for a name in `[acp]` or `[agents]` that another agent has."""
    global _last
    if _last is not None and _last.settings is settings:
        return _last
    taken = {*AGENTS}
    for table, names in (("acp", settings.acp), ("agents", settings.agents)):
        for name in names:
            if name in taken:
                message = f"{table}.{name}: there is already an agent named {quoted(name)}"
                raise OstlerError("exists", message, "Choose another name")
        taken |= {*names}
    _last = KnownAgents(settings)
    return _last


def find_agent(settings: Settings, name_or_model: str) -> tuple[Agent, str | None]:
    """The agent of that name or model, and the model if it was one. Raises not_found, bad_request."""
    try:
        return agent_for(name_or_model, settings.models, agents_of(settings))
    except OstlerError as error:
        if error.kind == "not_found":
            raise OstlerError(error.kind, error.message, ". ".join((error.hint, *plug_in_problems()))) from error
        raise


def name_and_model(settings: Settings, name: str) -> tuple[str, str | None]:
    """An agent's name and model for a name, a model or a profile."""
    profile = settings.profiles.get(name)
    if profile is not None and name not in agents_of(settings):  # no project file may take over an agent's name
        agent, model = _agent_of_profile(settings, name, profile)
        return agent.name, profile.model or model
    agent, model = find_agent(settings, name)
    return agent.name, model


def _agent_of_profile(settings: Settings, name: str, profile: Profile) -> tuple[Agent, str | None]:
    """Raises what is wrong with it, and says which file has it."""
    called = f"the profile {quoted(name)}" + (f" in {file}" if (file := settings.profile_files.get(name)) else "")
    if not (profile.agent or profile.model):
        raise OstlerError("bad_request", f"{called} names neither an agent nor a model", "Set its agent or model")
    try:
        return find_agent(settings, profile.agent or profile.model or "")
    except OstlerError as error:
        raise OstlerError(error.kind, f"{called}: {error.message}", error.hint) from error


def the_agent(settings: Settings, name: str) -> Agent:
    """The agent of that very name. Raises not_found: it was there when its session began."""
    agents = agents_of(settings)
    if name not in agents:
        hint = ". ".join((f"Agents: {', '.join(agents)}", *plug_in_problems()))
        raise OstlerError("not_found", f"the agent {quoted(name)} no longer exists", hint)
    return agents[name]


def plug_in_problems() -> list[str]:
    """A sentence for each plug-in that cannot be used, or is slow."""
    return [f"The plug-in {quoted(name)}: {problem}" for name, problem in plug_ins().problems.items()]
