"""The options of a turn as keywords of the Python API: what an editor completes and mypy checks.

`TurnKeywords` has every option of `TurnOptions`, in the forms that are handy to write; a test compares the two.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from msgspec import structs

from ostler.access import Access
from ostler.errors import OstlerError, quoted
from ostler.model import Attachment, HookMode, Limits, SystemMode, TransportName, TurnOptions, WaitFor
from ostler.work.turns.artifacts import Recording
from ostler.work.turns.mcp_servers import WantedServer, from_fields

_LISTS = (
    "tools_allowed",
    "tools_denied",
    "first_tools_allowed",
    "first_tools_denied",
    "fallback",
    "attachments",
    "agent_flags",
)


class TurnKeywords(TypedDict, total=False):
    """The options of one turn. None, or nothing at all: the session, its profile or the settings say."""

    access: Access | None
    model: str | None
    system: str | None
    system_mode: SystemMode | None
    tools_allowed: Sequence[str] | None
    tools_denied: Sequence[str] | None
    first_tools_allowed: Sequence[str] | None
    first_tools_denied: Sequence[str] | None
    env: Mapping[str, str] | None
    limits: Limits | None
    fallback: Sequence[str] | None
    mcp: Sequence[WantedServer] | None
    hooks: HookMode | None
    agent_flags: Sequence[str] | None
    attachments: Sequence[Attachment | str | os.PathLike[str]]
    schema: dict[str, Any] | None
    command: bool
    transport: TransportName | None
    mode: str | None
    wait_for: WaitFor | None
    priority: int | None  # among turns that wait, from -10 to 10


class RunKeywords(TurnKeywords, total=False):
    """The same, and how the turn is run."""

    wait: bool  # queue behind a busy session instead of failing with `busy`
    record: Recording | None  # keeps the raw output as a cassette


class SingleRunKeywords(RunKeywords, total=False):
    """The same, and the session that the turn is one of."""

    folder: str | None
    session: str | None
    name: str | None
    resume_last: bool
    agent_session: str | None


def options_from(keywords: Mapping[str, Any], base: TurnOptions | None = None) -> TurnOptions:
    """The options that keywords say, over `base`. Raises bad_request for what cannot be one, TypeError for others."""
    given = dict(keywords)
    if unknown := given.keys() - {*TurnOptions.__struct_fields__}:
        raise TypeError(f"unexpected keyword argument {quoted(min(unknown))}: a turn has no such option")
    for name in _LISTS:
        if given.get(name) is not None:
            given[name] = _listed(given[name])
    if given.get("attachments") is not None:
        given["attachments"] = tuple(os.fspath(a) if isinstance(a, os.PathLike) else a for a in given["attachments"])
    if given.get("env") is not None:
        given["env"] = dict(given["env"])
    if given.get("mcp") is not None:
        given["mcp"] = tuple(from_fields(each) for each in _listed(given["mcp"]))
    return structs.replace(base or TurnOptions(), **given)


def _listed(values: Sequence[Any]) -> tuple[Any, ...]:
    """Raises bad_request for one text, which is a list of its letters."""
    if isinstance(values, str):
        raise OstlerError("bad_request", f"{quoted(values[:100])} is a single string; a list of names is expected")
    return tuple(values)
