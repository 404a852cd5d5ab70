"""What a client may choose for a session: the agent, the model, the access. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from ostler.access import ACCESS_ORDER, Access
from ostler.agents import Agent
from ostler.errors import OstlerError, quoted
from ostler.model import Offer, TurnOptions
from ostler.work.turns.options import merged

DEFAULT_MODEL = "default"
_NAMES: dict[Access, str] = {"read": "Read", "write": "Write", "full": "Full"}
_MAY: dict[Access, str] = {
    "read": "May read, but change nothing",
    "write": "May change files in the folder",
    "full": "May do everything that you may",
}


# What a client says in ACP's own way (options of the session, blocks of the prompt, `mcpServers`), or not at all.
ELSEWHERE = frozenset(
    ("access", "model", "attachments", "schema", "limits", "command", "mode", "mcp", "transport"),
)
# The others it may send in `_meta.ostler`: with a session, or with one prompt.
ClientOptions = msgspec.defstruct(
    "ClientOptions",
    [(each.name, each.type, each.default) for each in structs.fields(TurnOptions) if each.name not in ELSEWHERE],
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
)


def options_of(params: dict[str, Any], before: TurnOptions | None = None) -> TurnOptions:
    """Those of a request, over those of its session. Raises bad_request."""
    meta = params.get("_meta")
    sent = meta.get("ostler") if isinstance(meta, dict) else None
    try:
        given = TurnOptions(**structs.asdict(msgspec.convert({} if sent is None else sent, ClientOptions)))
    except msgspec.ValidationError as error:
        raise OstlerError("bad_request", f"_meta.ostler is not valid: {error}") from error
    return given if before is None else merged(given, before)


class Choices(Struct, frozen=True, kw_only=True):
    """What there is to choose from, and what is chosen."""

    agent: Agent  # that serves
    chosen: str  # its name, or that of a profile
    agents: Mapping[str, str]  # name → title; one alone once the session has begun
    access: Access
    accesses: Sequence[Access]
    model: str | None
    models: Sequence[Offer]

    @property
    def asks(self) -> bool:
        return self.agent.dialog is not None


def accesses(agent: Agent, now: Access, loose: bool) -> list[Access]:
    """Those that the agent can keep to, and the one that holds."""
    return [a for a in ACCESS_ORDER if a == now or loose or a not in agent.unpromised]


def modes(choices: Choices) -> dict[str, Any]:
    available = [
        {"id": access, "name": _NAMES[access], "description": _describe(choices, access)} for access in choices.accesses
    ]
    return {"currentModeId": choices.access, "availableModes": available}


def config_options(choices: Choices) -> list[dict[str, Any]]:
    """Always whole: what is chosen in one may change another."""
    agents = [(name, title, "") for name, title in choices.agents.items()]
    models = [(DEFAULT_MODEL, "Default", "The default of the agent"), *map(_model, choices.models)]
    access = [(a, _NAMES[a], _describe(choices, a)) for a in choices.accesses]
    return [
        _select("mode", "Access", "mode", choices.access, access, "What the agent may do"),
        _select("model", "Model", "model", choices.model or DEFAULT_MODEL, models, "By the agent's own name"),
        _select("agent", "Agent", "_agent", choices.chosen, agents, "Who does the work; fixed by the first prompt"),
    ]


def access_of(value: Any, choices: Choices) -> Access:
    """Raises bad_request for one that there is not."""
    for access in choices.accesses:
        if access == value:
            return access
    raise OstlerError(
        "bad_request", f"there is no mode {quoted(value)}", f"Choose one of: {', '.join(choices.accesses)}"
    )


def model_of(value: Any) -> str | None:
    """Any name is taken: whether there is such a model, the agent alone can say."""
    if value == DEFAULT_MODEL:
        return None
    if not isinstance(value, str) or not is_model(value):
        raise OstlerError("bad_request", f"{quoted(value)} is not a valid model name")
    return value


def is_model(name: str) -> bool:
    """Whether a client can be offered it, and may choose it."""
    return (
        bool(name) and name != DEFAULT_MODEL and len(name) <= 200 and not any(c.isspace() or ord(c) < 32 for c in name)
    )


def _model(offer: Offer) -> tuple[str, str, str]:
    return offer.id, offer.name or offer.id, offer.description


def _describe(choices: Choices, access: Access) -> str:
    asks = "" if access == "read" else "; asks before it acts" if choices.asks else "; does not ask"
    return _MAY[access] + asks


def _select(
    id: str, name: str, category: str, value: str, options: Sequence[tuple[str, str, str]], description: str
) -> dict[str, Any]:
    choices = [{"value": v, "name": n, **({"description": d} if d else {})} for v, n, d in options]
    return {
        **{"id": id, "name": name, "description": description, "category": category},
        **{"type": "select", "currentValue": value, "options": choices},
    }
