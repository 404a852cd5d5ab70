"""Builds Settings from its layers."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, get_origin

import msgspec

from ostler.errors import quoted
from ostler.model import PlainAgent
from ostler.settings.check import DURATIONS, KeyPath, Where, checked, checked_limit, nearest, unknown, wrong
from ostler.settings.files import Layer, file_layer, find_project_file, home_of, project_root, user_layer
from ostler.settings.keys import TYPES, Loaded, McpEntry, ScheduleEntry, Settings
from ostler.settings.trust import Trust, digest, recorded_trust, unsafe_keys, without

_ADD_UP = {"tools_denied", "redact"}  # what restricts is never lost to a higher layer
_IN_ORDER = {"asks"}  # the first that fits counts: nobody's rules come before the user's
_MERGED = {"models", "profiles", "limits", "env", "commands", "acp", "agents", "mcp", "agent_flags", "pool", "spending"}


def load_settings(
    *,
    folder: str,
    environ: Mapping[str, str],
    flags: Mapping[str, Any] | None = None,
    trust: Trust | None = None,
) -> Loaded:
    """Settings for work in a folder. Raises bad_request with file and line for what is wrong in a file.

    `trust` says whether a project file (path, sha256) was trusted; by default the user's list is asked.
    """
    notices: list[str] = []
    folder = os.path.realpath(folder)
    layers = [user_layer(environ)]
    project_file, data = find_project_file(folder, notices)
    if data is not None:
        layer = file_layer(project_file, data)
        if not (trust or recorded_trust(trust_file(environ)))(project_file, digest(data)):
            layer = _untrusted(layer, layers[0], notices)
        layers.append(layer)
    folder_notices = tuple(notices)
    layers += [_environment_layer(environ, notices), Layer("flag", _checked_flags(flags or {}))]
    values, sources = _merged(layers)
    settings: Settings = msgspec.convert(values, Settings)
    root = project_root(folder, project_file)
    settings = msgspec.structs.replace(
        settings,
        home=_state_folder(settings, environ, root),
        profile_files={name: layer.source for layer in layers for name in layer.values.get("profiles", ())},
        commands={name: (_expanded(argv[0], environ), *argv[1:]) for name, argv in settings.commands.items()},
        acp={name: (_expanded(argv[0], environ), *argv[1:]) for name, argv in settings.acp.items()},
        agents={name: _plain_at_home(entry, environ) for name, entry in settings.agents.items()},
        mcp={name: _at_home(entry, environ) for name, entry in settings.mcp.items()},
        schedules={name: _folder_at_home(entry, environ) for name, entry in settings.schedules.items()},
        scenario=os.path.abspath(settings.scenario) if settings.scenario else "",  # agents start elsewhere
    )
    return Loaded(
        settings=settings,
        notices=tuple(notices),
        folder_notices=folder_notices,
        sources=sources,
    )


def _untrusted(layer: Layer, user: Layer, notices: list[str]) -> Layer:
    unsafe = unsafe_keys(layer.values, user.values)
    if unsafe:
        names = ", ".join(".".join(path) for path in unsafe)
        notices.append(f"{layer.source} is not trusted: {names} ignored. Read it, then run `ostler trust`")
    return without(layer, unsafe)


def _merged(layers: Iterable[Layer]) -> tuple[dict[str, Any], dict[str, str]]:
    """Later layers win; maps merge by key (a profile is replaced whole), restrictions add up."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer in layers:
        for key, value in layer.values.items():
            if key in _MERGED:
                values[key] = {**values.get(key, {}), **value}
            elif key in _ADD_UP:
                values[key] = list(dict.fromkeys([*values.get(key, []), *value]))
            elif key in _IN_ORDER:
                values[key] = [*values.get(key, []), *value]
            else:
                values[key] = value
            sources[key] = layer.source
    values["profiles"] = {name: _within(values, profile) for name, profile in values.get("profiles", {}).items()}
    return values, sources


def _within(values: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    """A profile that names one limit or one denied tool must not lose those around it."""
    full = dict(profile)
    if profile.get("limits") is not None:  # also where it names none: `limits = {}`
        full["limits"] = {**values.get("limits", {}), **profile["limits"]}
    if profile.get("tools_denied"):
        full["tools_denied"] = list(dict.fromkeys([*values.get("tools_denied", []), *profile["tools_denied"]]))
    return full


# -- environment and flags --------------------------------------------------------------------------

VARIABLES: dict[str, KeyPath] = {
    "OSTLER_AGENT": ("default_agent",),
    "OSTLER_ACCESS": ("access",),
    "OSTLER_TIMEOUT": ("limits", "total"),
    "OSTLER_IDLE_TIMEOUT": ("limits", "idle"),
    "OSTLER_MAX_COST": ("limits", "cost_usd"),
    "OSTLER_ALLOW_TOOLS": ("tools_allowed",),
    "OSTLER_DENY_TOOLS": ("tools_denied",),
    "OSTLER_FALLBACK": ("fallback",),
    "OSTLER_ENV_PASS": ("env_pass",),
    "OSTLER_REDACT": ("redact",),
    "OSTLER_STATE": ("state",),
    "OSTLER_TTL_DAYS": ("ttl_days",),
    "OSTLER_CONFIG": ("config",),
    "OSTLER_LEAN": ("lean",),
    "OSTLER_ASK_LIMIT": ("ask_limit",),
    "OSTLER_DIALOG_IDLE": ("dialog_idle",),
    "OSTLER_DIALOG_RECEIPT": ("dialog_receipt",),
    "OSTLER_TUI_IDLE": ("tui_idle",),
    "OSTLER_TUI_START": ("tui_start",),
    "OSTLER_TUI_RECEIPT": ("tui_receipt",),
    "OSTLER_TMUX": ("tmux",),
    "OSTLER_TMUX_SHOWS": ("tmux_shows",),
    "OSTLER_LOOSE": ("loose",),
    "OSTLER_WALLS": ("walls",),
    "OSTLER_READ_SECRETS": ("read_secrets",),
    "OSTLER_TERMINALS": ("terminals",),
    "OSTLER_RECORDING_MB": ("recording_mb",),
    "OSTLER_PORT": ("port",),
    "OSTLER_ONLY": ("only",),
    "OSTLER_SCENARIO": ("scenario",),
}
# What the hooks of an agent find in their environment, and an ostler that is run by one.
_OF_HOOKS = ("OSTLER_SESSION", "OSTLER_CALLBACK_URL", "OSTLER_CALLBACK_TOKEN", "OSTLER_API_URL")
_KNOWN = (*VARIABLES, "OSTLER_HOME", "OSTLER_DEBUG", "OSTLER_LOG", "OSTLER_TURN", *_OF_HOOKS)


def _environment_layer(environ: Mapping[str, str], notices: list[str]) -> Layer:
    values: dict[str, Any] = {}
    for name, path in VARIABLES.items():
        if environ.get(name):
            value = _from_variable(name, environ[name], path)
            if path[0] == "limits":
                values.setdefault("limits", {})[path[1]] = value
            else:
                values[path[0]] = value
    for name in environ:
        # Other programs may have variables of this prefix: only what looks like a slip is told.
        if name.startswith("OSTLER_") and not _is_known(name) and (guess := nearest(name, _KNOWN, cutoff=0.85)):
            notices.append(f"unknown variable {name}. Did you mean {guess}?")
    return Layer("environment", values)


def _is_known(name: str) -> bool:
    return name in _KNOWN or name.startswith("OSTLER_SCRIPT_")  # those steer the scripted agent


def _from_variable(name: str, text: str, path: KeyPath) -> Any:
    where, kind = Where(name), TYPES[path[0]]
    if path[0] in ("limits", *DURATIONS):
        return checked_limit(text, where, path)
    if get_origin(kind) is tuple:
        return checked([part.strip() for part in text.split(",") if part.strip()], kind, where, path)
    if kind not in (bool, int, float):
        return checked(text, kind, where, path)
    try:
        return checked(msgspec.convert(text, kind, strict=False), kind, where, path)
    except msgspec.ValidationError as error:
        raise wrong(
            where, path, f"{quoted(text)} is {'not true or false' if kind is bool else 'not a number'}"
        ) from error


def _checked_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for name, value in flags.items():
        if name not in TYPES:
            raise unknown(Where("flags"), (name,), TYPES)
        if value is not None:
            values[name] = checked(msgspec.to_builtins(value), TYPES[name], Where("flags"), (name,))
    return values


# -- where state lives ------------------------------------------------------------------------------


def _state_folder(settings: Settings, environ: Mapping[str, str], root: str) -> str:
    if settings.home:
        return os.path.abspath(settings.home)
    if settings.state == "user" or environ.get("OSTLER_HOME"):
        return user_state_folder(environ)
    if settings.state == "project":
        return os.path.join(root, ".ostler")
    return os.path.normpath(os.path.join(root, _expanded(settings.state, environ)))


def _at_home(entry: McpEntry, environ: Mapping[str, str]) -> McpEntry:
    return msgspec.structs.replace(entry, command=_expanded(entry.command, environ))


def _folder_at_home(entry: ScheduleEntry, environ: Mapping[str, str]) -> ScheduleEntry:
    return msgspec.structs.replace(entry, folder=_expanded(entry.folder, environ))


def _plain_at_home(entry: PlainAgent, environ: Mapping[str, str]) -> PlainAgent:
    return msgspec.structs.replace(entry, command=(_expanded(entry.command[0], environ), *entry.command[1:]))


def _expanded(path: str, environ: Mapping[str, str]) -> str:
    return os.path.join(home_of(environ), path[2:]) if path.startswith("~/") else path


def user_state_folder(environ: Mapping[str, str]) -> str:
    """`$OSTLER_HOME`, else ostler's folder under `$XDG_STATE_HOME` or ~/.local/state."""
    if environ.get("OSTLER_HOME"):
        return os.path.abspath(environ["OSTLER_HOME"])
    base = environ.get("XDG_STATE_HOME") or os.path.join(home_of(environ), ".local", "state")
    return os.path.join(base, "ostler")


def trust_file(environ: Mapping[str, str]) -> str:
    """The user's list of trusted project files: never in a project, which cannot vouch for itself."""
    return os.path.join(user_state_folder(environ), "trusted.json")
