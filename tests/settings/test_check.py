"""Values against the types of the settings: what is taken, and how what is wrong is told, with its line."""

from typing import Any

import pytest

from ostler.errors import OstlerError, quoted
from ostler.settings.check import Where, checked, checked_limit, line_of, nearest, unknown, wrong
from ostler.settings.keys import TYPES

FLAG = Where("--set")


def take(key: str, value: Any) -> Any:
    return checked(value, TYPES[key], FLAG, (key,))


def refused(key: str, value: Any) -> str:
    with pytest.raises(OstlerError) as error:
        take(key, value)
    assert error.value.kind == "bad_request"
    return error.value.message


def test_a_url_that_cannot_be_posted_to() -> None:
    for url, why in (("ftp://x", "a URL is expected"), ("http://x:99999", "out of range"), ("http://x:a", "'a'")):
        assert why in refused("forward", {"url": url})
    assert take("forward", {"url": "https://x:8443/y"}) == {"url": "https://x:8443/y"}


def test_lines_of_keys() -> None:
    text = 'a = """\nlimits.idle = 1\n"""\n[profiles."x.y"]\nagent = 1\n[ limits ]\nidle=2\n'
    assert line_of(text, ("limits", "idle")) == 7
    assert line_of(text, ("profiles", "x.y", "agent")) == 5
    assert line_of(text, ("profiles", "x.y", "model")) == 4
    assert line_of(text, ("other",)) == 1


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("", ("a",), 1),
        ("# a = 1\na = 2\n", ("a",), 2),
        ("[mcp.db]\ncommand = 1\n[mcp.web]\ncommand = 2\n", ("mcp", "web", "command"), 4),
        ('[[asks]]\nanswer = "allow"\n[[asks]]\nanswer = "x"\n', ("asks", "2", "answer"), 4),
        ('[[asks]]\nanswer = "allow"\n[[asks]]\n', ("asks", "2", "tool"), 3),
        ("limits.idle = 1\nlimits.total = 2\n", ("limits", "total"), 2),
        ("limits = { idle = 1 }\n", ("limits", "idle"), 1),
        ("x = '''\na = 1\n'''\na = 2\n", ("a",), 4),
        ('"a" = 1\n', ("a",), 1),
        ("[ 'a b' . c ]\nd = 1\n", ("a b", "c", "d"), 2),
        ("ab = 1\na = 2\n", ("a",), 2),
    ],
)
def test_where_a_key_stands(text: str, path: tuple[str, ...], line: int) -> None:
    assert line_of(text, path) == line
    assert Where("f.toml", text or "\n").at(path) == f"f.toml:{line}: "
    assert Where("OSTLER_A").at(path) == "OSTLER_A: "


# -- what is taken ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "plain"),
    [
        ("access", "write", "write"),
        ("lean", True, True),
        ("port", 0, 0),
        ("port", 65535, 65535),
        ("tools_denied", ["web"], ("web",)),
        ("commands", {"claude": "/opt/claude"}, {"claude": ("/opt/claude",)}),
        ("acp", {"my-agent.2": ["x", "--acp"]}, {"my-agent.2": ("x", "--acp")}),
        ("agents", {"x": {"command": "y"}}, {"x": {"command": ("y",)}}),
        (
            "agents",
            {"x": {"command": ["y"], "proof": "pattern", "done_pattern": "^D", "env": {"A": "1"}}},
            {"x": {"command": ("y",), "proof": "pattern", "done_pattern": "^D", "env": {"A": "1"}}},
        ),
        ("env", {"A_1": "x"}, {"A_1": "x"}),
        ("limits", {"idle": "5m", "total": "none", "cost_usd": 2}, {"idle": 300.0, "total": None, "cost_usd": 2.0}),
        ("ask_limit", "none", None),
        ("dialog_idle", "1m", 60.0),
        ("asks", [{"answer": "deny", "tool": "shell"}], [{"answer": "deny", "tool": "shell"}]),
        ("profiles", {"x": {"limits": {"total": 5}}}, {"x": {"limits": {"total": 5.0}}}),
        ("mcp", {"db": {"command": "x", "args": ["a"]}}, {"db": {"command": "x", "args": ("a",)}}),
    ],
)
def test_values_that_are_taken(key: str, value: Any, plain: Any) -> None:
    assert take(key, value) == plain


# -- what is not ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("access", "root", "--set: access: 'root' is not one of read, write, full"),
        ("access", 5, "--set: access: expected str, got int"),
        ("lean", "yes", "--set: lean: expected bool, got str"),
        ("port", -1, "--set: port: a port is a number from 1 to 65535, or 0 for any"),
        ("port", 65536, "--set: port: a port is a number from 1 to 65535, or 0 for any"),
        ("terminals", 0, "--set: terminals: it must be more than 0"),
        ("ttl_days", float("nan"), "--set: ttl_days: it must be more than 0"),
        ("recording_mb", float("inf"), "--set: recording_mb: it must be more than 0"),
        ("state", "", "--set: state: it is empty"),
        ("tools_denied", ["a\0b"], "--set: tools_denied: it contains a NUL character"),
        ("commands", {"claude": ""}, "--set: commands.claude: a command needs a program"),
        ("commands", {"claude": []}, "--set: commands.claude: a command needs a program"),
        ("env", {"1A": "x"}, "--set: env.1A: '1A' cannot be the name of a variable"),
        ("env", {"A=B": "x"}, "--set: env.A=B: 'A=B' cannot be the name of a variable"),
        ("env", "A=B", "--set: env: expected a table, got a string"),
        ("limits", [1], "--set: limits: expected a table, got a list"),
        ("limits", True, "--set: limits: expected a table, got true or false"),
        ("asks", {"answer": "deny"}, "--set: asks: expected a list of tables: [[asks]]"),
        ("asks", [{"tool": "shell"}], "--set: asks.1: answer is required"),
        (
            "asks",
            [{"answer": "deny"}, {"answer": "maybe"}],
            "--set: asks.2.answer: 'maybe' is not one of allow, deny, ask",
        ),
        (
            "profiles",
            {"x": {"done_pattern": "("}},
            "--set: profiles.x.done_pattern: this is not a valid regular expression",
        ),
        ("agents", {"x": {"title": "X"}}, "--set: agents.x: command is required"),
        ("agents", {"x": {"command": []}}, "--set: agents.x.command: a command needs a program"),
        (
            "agents",
            {"x": {"command": "y", "proof": "faith"}},
            "--set: agents.x.proof: 'faith' is not one of exit, pattern",
        ),
        (
            "agents",
            {"x": {"command": "y", "proof": "pattern"}},
            '--set: agents.x: proof = "pattern" needs done_pattern',
        ),
        (
            "agents",
            {"x": {"command": "y", "proof": "exit", "done_pattern": "D"}},
            '--set: agents.x: done_pattern needs proof = "pattern"',
        ),
        (
            "agents",
            {"x": {"command": "y", "done_pattern": "("}},
            "--set: agents.x.done_pattern: this is not a valid regular expression",
        ),
        (
            "agents",
            {"x": {"command": "y", "env": {"1": "z"}}},
            "--set: agents.x.env.1: '1' cannot be the name of a variable",
        ),
    ],
)
def test_values_that_are_not(key: str, value: Any, message: str) -> None:
    assert refused(key, value) == message


@pytest.mark.parametrize("name", ["", "-a", "A", "a b", "a/b", "a" * 65, "../x"])
def test_names_of_agents(name: str) -> None:
    assert "cannot be the name of an agent" in refused("acp", {name: ["x"]})
    assert "cannot be the name of an agent" in refused("agents", {name: {"command": "x"}})


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a" * 65, "ü"])
def test_names_of_servers(name: str) -> None:
    assert "cannot be the name of an MCP server" in refused("mcp", {name: {"command": "x"}})


@pytest.mark.parametrize(
    ("path", "value", "seconds"),
    [
        (("limits", "idle"), "90", 90.0),
        (("limits", "idle"), None, None),
        (("limits", "idle"), "none", None),
        (("limits", "cost_usd"), "2.5", 2.5),
        (("limits", "cost_usd"), 3, 3.0),
        (("limits", "linger"), "2s", 2.0),
    ],
)
def test_limits(path: tuple[str, ...], value: Any, seconds: float | None) -> None:
    assert checked_limit(value, FLAG, path) == seconds


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((("limits", "idle"), value) for value in (0, -1, "", "never", "5 m", True, [], {}, "nan")),
        *((("limits", "cost_usd"), value) for value in (0, -1, "x", True, "5m", "inf")),
        (("limits", "linger"), "none"),
        (("dialog_idle",), "none"),
    ],
)
def test_no_limits(path: tuple[str, ...], value: Any) -> None:
    with pytest.raises(OstlerError) as error:
        checked_limit(value, FLAG, path)
    named = ".".join(path)
    assert error.value.message.startswith(f"--set: {named}: {quoted(value)} is no")


# -- what to say ------------------------------------------------------------------------------------


def test_an_unknown_key_has_the_hint_that_helps_most() -> None:
    error = unknown(Where("f.toml", "acces = 1"), ("acces",), TYPES)
    assert (error.kind, str(error)) == ("bad_request", "f.toml:1: unknown setting acces. Did you mean access?")
    assert unknown(FLAG, ("home",), TYPES).hint == "Set OSTLER_HOME in the environment instead"
    assert unknown(FLAG, ("limits", "zzz"), ["idle", "total"]).hint == "Known here: idle, total"
    assert str(wrong(FLAG, ("a", "b"), "no")) == "--set: a.b: no"


def test_the_nearest_name() -> None:
    names = ["claude", "codex", "gemini"]
    assert [nearest(name, names) for name in ("cluade", "codx", "xyz", "")] == ["claude", "codex", "", ""]
    assert nearest("a", []) == "" and nearest("codx", names, cutoff=0.99) == ""
