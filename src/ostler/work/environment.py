"""The environment of an agent: an allow-list, what its adapter declares, what the user adds."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
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
# An agent that finds these believes that it runs inside another one, or inside a sandbox.
NESTED = (
    *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_PID"),
    *("CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE", "CLAUDE_CODE_MESSAGING_*", "AI_AGENT"),
    *("CODEX_SANDBOX*", "CODEX_THREAD_ID", "CODEX_INTERNAL_ORIGINATOR_OVERRIDE", "CODEX_CI"),
    *("GEMINI_CLI", "GEMINI_CLI_NO_RELAUNCH", "QWEN_CODE", "CURSOR_AGENT", "CURSOR_TRACE_ID"),
    *("OPENCODE", "OPENCODE_PID", "COPILOT_CLI", "COPILOT_AGENT_SESSION_ID"),
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


class Environment(Struct, frozen=True):
    """What an agent gets, and the names of what was kept from it that it might have wanted."""

    env: dict[str, str]
    withheld: tuple[str, ...] = ()


def child_environment(
    base: Mapping[str, str],
    agent: Agent,
    *,
    add: Mapping[str, str],
    pass_patterns: Sequence[str],
    launch_env: Mapping[str, str],
) -> Environment:
    """The agent's environment. What a launch sets comes last: it enforces the access of the turn."""
    passed = {name: value for name, value in base.items() if passes(name, agent, pass_patterns)}
    env = {**passed, **QUIET, **add, **launch_env}
    withheld = sorted(name for name, value in base.items() if value and name not in env and wanted(name, agent))
    return Environment(env, tuple(withheld))


def passes(name: str, agent: Agent, pass_patterns: Sequence[str]) -> bool:
    """Whether a variable of ostler's own environment reaches the agent."""
    if matches(name, agent.drop) or matches(name, NESTED):
        return False
    if name.startswith("OSTLER_"):
        return matches(name, agent.env)
    return matches(name, ALLOWED) or matches(name, agent.env) or matches(name, pass_patterns)


def wanted(name: str, agent: Agent) -> bool:
    """Whether someone may wonder why this variable did not reach the agent."""
    if name.startswith("OSTLER_"):
        return False
    known = (pattern for other in AGENTS.values() for pattern in other.env)
    return matches(name, (*SECRET, *INTERESTING, *NESTED, *agent.drop)) or matches(name, known)


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


_WITH_PASSWORD = re.compile(r"^[a-z][a-z0-9+.-]*://[^/\s]*:[^/\s]*@", re.I)


def password_in(value: str) -> str | None:
    """The password of a URL such as a proxy's or a database's."""
    if not _WITH_PASSWORD.match(value):
        return None
    try:
        return unquote(urlsplit(value).password or "") or None
    except ValueError:
        return None


def matches(name: str, patterns: Iterable[str]) -> bool:
    return _matches(name, tuple(patterns))


@lru_cache(maxsize=4096)  # the names of one machine are few, and each turn asks of all of them
def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
