"""The environment of an agent: an allow-list, what its adapter declares, what the user adds."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from ostler.agents import AGENTS, Agent

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY")
ALLOWED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLORTERM"),
    *("TMPDIR", "XDG_*", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "VIRTUAL_ENV", "CONDA_*"),
    *_PROXIES,
    *(name.lower() for name in _PROXIES),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "REQUESTS_CA_BUNDLE"),
    *("CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NIX_SSL_CERT_FILE", "PIP_CERT", "AWS_CA_BUNDLE"),
    *("DENO_CERT", "CARGO_HTTP_CAINFO", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
)
# git and man inside an agent would wait in a pager or an editor for a person.
QUIET = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_EDITOR": ":",
    "GIT_MERGE_AUTOEDIT": "no",
}
SECRET = (
    *("*_API_KEY", "*_APIKEY", "*_KEY", "*_KEY_ID", "*_TOKEN", "*_PAT", "*_SECRET", "*_SECRET_*", "*_PASSWORD"),
    *("*_PASSWD", "*_PASSPHRASE", "*_CREDENTIALS", "*_AUTH", "*_COOKIE", "*_DSN", "*_WEBHOOK_URL"),
    *("API_KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PGPASSWORD", "*_AUTH_TOKEN_*", "*_CUSTOM_HEADERS"),
)
INTERESTING = ("AWS_*", "AZURE_*", "GOOGLE_*", "GCLOUD_*", "VERTEX_*", "*_BASE_URL", "*_API_BASE", "NODE_OPTIONS")
LEAST = 12  # a shorter value would mask ordinary words


def child_environment(
    base: Mapping[str, str],
    agent: Agent,
    *,
    add: Mapping[str, str],
    pass_patterns: Sequence[str],
    launch_env: Mapping[str, str],
    default_env: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """The agent's environment. What a launch sets comes last: it enforces the access of the turn."""
    rules = (agent.name in AGENTS, agent.drop, agent.nested, agent.env, tuple(pass_patterns))
    passed = {name: base[name] for name in _passing(tuple(base), rules)}
    return {**default_env, **passed, **QUIET, **add, **launch_env}


def withheld(base: Mapping[str, str], env: Mapping[str, str], agent: Agent) -> tuple[str, ...]:
    """The names of what was kept from an agent, whose environment is `env`, that it might have wanted."""
    return tuple(sorted(name for name, value in base.items() if value and name not in env and wanted(name, agent)))


_Rules = tuple[bool, tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]


@lru_cache(maxsize=64)  # the same for each turn of an agent
def _passing(names: tuple[str, ...], rules: _Rules) -> tuple[str, ...]:
    """Which variables of ostler's own environment reach the agent."""
    return tuple(name for name in names if _passes(name, rules))


def _passes(name: str, rules: _Rules) -> bool:
    built_in, drop, inside, declared, pass_patterns = rules
    if matches(name, drop) or matches(name, inside):
        return False
    if name.startswith("OSTLER_"):
        return matches(name, declared)
    if matches(name, ALLOWED) or (built_in and matches(name, declared)):
        return True  # a test sees to it that no built-in agent declares what is nested of another
    return matches(name, (*declared, *pass_patterns)) and not matches(name, nested())


@cache
def nested() -> tuple[str, ...]:
    """The variables of any agent by which another would believe that it runs inside it, or inside a sandbox."""
    return tuple(name for agent in AGENTS.values() for name in agent.nested)


def wanted(name: str, agent: Agent) -> bool:
    """Whether someone may wonder why this variable did not reach the agent."""
    if name.startswith("OSTLER_"):
        return False
    known = (pattern for other in AGENTS.values() for pattern in other.env)
    return matches(name, (*SECRET, *INTERESTING, *nested(), *agent.drop)) or matches(name, known)


def secrets(base: Mapping[str, str], env: Mapping[str, str], keys: Iterable[str]) -> tuple[str, ...]:
    """Values that must not be written anywhere, longest first; `keys` are further names that hold one."""
    named = {*keys}
    found: set[str] = set()
    for source in (base, env):
        for name, value in source.items():
            if name in named or holds_secret(name):
                found.update(pieces(value))
            elif (password := password_in(value)) is not None:
                found.add(password)
    return tuple(sorted((value for value in found if len(value) >= LEAST), key=lambda value: (-len(value), value)))


@lru_cache(maxsize=4096)
def holds_secret(name: str) -> bool:
    path = (
        name.upper().endswith(("_FILE", "_PATH", "_DIR", "_SOCK", "_SOCKET"))
        or name == "GOOGLE_APPLICATION_CREDENTIALS"
    )
    return not path and matches(name.upper(), SECRET)


def pieces(value: str) -> set[str]:
    """The value, and the lines of one that has several: a key in PEM form is printed line by line."""
    lines = {line.strip() for line in value.splitlines() if not line.startswith("-----")}
    return {value.strip(), *lines}


_WITH_PASSWORD = r"(?i)[a-z][a-z0-9+.-]*://[^/\s]*:[^/\s]*@"


def password_in(value: str) -> str | None:
    """The password of a URL such as a proxy's or a database's."""
    if "://" not in value or not re.match(_WITH_PASSWORD, value):
        return None
    try:
        return unquote(urlsplit(value).password or "") or None
    except ValueError:
        return None


def matches(name: str, patterns: Iterable[str]) -> bool:
    """As fnmatchcase with any of them, which would compile each."""
    known = _grouped(tuple(patterns))
    return (
        name in known.words
        or name.startswith(known.beginnings)
        or name.endswith(known.endings)
        or any(part in name for part in known.parts)
        or any(fnmatchcase(name, pattern) for pattern in known.others)
    )


class _Grouped(Struct, frozen=True):
    """Patterns by where they have a star: nearly all are a word, with one before or after it."""

    words: frozenset[str]
    beginnings: tuple[str, ...]
    endings: tuple[str, ...]
    parts: tuple[str, ...]
    others: tuple[str, ...]


@lru_cache(maxsize=512)
def _grouped(patterns: tuple[str, ...]) -> _Grouped:
    groups: dict[tuple[bool, bool], list[str]] = {(a, b): [] for a in (False, True) for b in (False, True)}
    others: list[str] = []
    for pattern in patterns:
        word = pattern.strip("*")
        group = others if any(sign in word for sign in "*?[") else groups[pattern[:1] == "*", pattern[-1:] == "*"]
        group.append(pattern if group is others else word)
    words, beginnings, endings, parts = (tuple(group) for group in groups.values())
    return _Grouped(frozenset(words), beginnings, endings, parts, tuple(others))
