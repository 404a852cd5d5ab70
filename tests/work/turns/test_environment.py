"""What reaches an agent of the environment, and which values are secret."""

from fnmatch import fnmatchcase

import pytest
from msgspec import structs

from ostler.agents import AGENTS
from ostler.agents.adapter import Agent
from ostler.work.turns.environment import ALLOWED, QUIET, SECRET, child_environment, matches, secrets, withheld

AGENT: Agent = structs.replace(
    AGENTS["script"], name="probe", env=("OPENAI_*", "MY_SETTING"), drop=("NODE_OPTIONS", "OPENAI_DEBUG"), keys=()
)


def made(base: dict[str, str], **more: object) -> dict[str, str]:
    options = {"add": {}, "pass_patterns": (), "launch_env": {}, **more}
    return child_environment(base, AGENT, **options)  # type: ignore[arg-type]


def made_and_withheld(base: dict[str, str], **more: object) -> tuple[dict[str, str], tuple[str, ...]]:
    env = made(base, **more)
    return env, withheld(base, env, AGENT)


def test_only_allowed_and_declared_variables_pass() -> None:
    base = {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "XDG_CONFIG_HOME": "/x",
        "https_proxy": "p",
        "NO_PROXY": "n",
        "SSL_CERT_FILE": "c",
        "CONDA_PREFIX": "e",
        "OPENAI_API_KEY": "k",
        "MY_SETTING": "s",
        "RANDOM": "r",
        "GITHUB_TOKEN": "t",
        "AWS_PROFILE": "a",
        "EMPTY_TOKEN": "",
    }
    passed = ("PATH", "HOME", "LC_ALL", "XDG_CONFIG_HOME", "https_proxy", "NO_PROXY", "SSL_CERT_FILE", "CONDA_PREFIX")
    expected = {name: base[name] for name in (*passed, "OPENAI_API_KEY", "MY_SETTING")} | QUIET
    assert made_and_withheld(base) == (expected, ("AWS_PROFILE", "GITHUB_TOKEN"))


def test_patterns_pass_more() -> None:
    done = made_and_withheld({"FOO_A": "1", "FOO_B": "2", "BAR": "3"}, pass_patterns=("FOO_*",))
    assert done == ({"FOO_A": "1", "FOO_B": "2"} | QUIET, ())


def test_variables_of_an_outer_agent_and_dropped_ones_never_pass() -> None:
    outer = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "AI_AGENT", "CODEX_SANDBOX_NETWORK_DISABLED", "GEMINI_CLI")
    base = dict.fromkeys((*outer, "NODE_OPTIONS", "OPENAI_DEBUG"), "1")
    assert made_and_withheld(base, pass_patterns=("*",)) == (dict(QUIET), tuple(sorted(base)))
    assert (
        made(base, add={"CLAUDECODE": "2", "NODE_OPTIONS": "x"})
        == {
            "CLAUDECODE": "2",
            "NODE_OPTIONS": "x",
        }
        | QUIET
    )


def test_variables_of_ostler_stay_with_it() -> None:
    assert made_and_withheld({"OSTLER_HOME": "/s", "OSTLER_API_KEY": "k"}, pass_patterns=("*",)) == (dict(QUIET), ())
    script = child_environment(
        {"OSTLER_SCENARIO": "f", "OSTLER_HOME": "/s"}, AGENTS["script"], add={}, pass_patterns=(), launch_env={}
    )
    assert "OSTLER_HOME" not in script


def test_defaults_of_a_launch_come_before_all_else() -> None:
    done = made({"TERM": "base"}, add={"HOME": "add"}, default_env={"TERM": "x", "HOME": "x", "FLAG": "default"})
    assert done == {"TERM": "base", "HOME": "add", "FLAG": "default"} | QUIET


def test_launch_comes_after_what_the_user_adds_and_that_after_the_rest() -> None:
    done = made(
        {"TERM": "base", "HOME": "base"},
        add={"TERM": "add", "HOME": "add", "PAGER": "less"},
        launch_env={"HOME": "launch"},
    )
    assert done == {"TERM": "add", "HOME": "launch"} | QUIET | {"PAGER": "less"}


def test_secrets_are_values_of_secret_names_passed_or_withheld() -> None:
    base = {
        "GITHUB_TOKEN": "ghp_0123456789",
        "SHORT_TOKEN": "short",
        "PLAIN": "nothing-secret-here",
        "SSH_AUTH_SOCK": "/run/user/agent.sock",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token-file",
        "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key.json",
        "DATABASE_URL": "postgres://me:p%40ssword-1234@db/x",
        "HTTP_PROXY": "http://proxy:3128",
        "PGPASSWORD": "a-long-password",
    }
    env = {"MY_CUSTOM": "value-of-a-key-name", "GITHUB_TOKEN": "ghp_0123456789"}
    assert secrets(base, env, ("MY_CUSTOM",)) == (
        "value-of-a-key-name",
        "a-long-password",
        "ghp_0123456789",
        "p@ssword-1234",
    )


def test_a_key_of_several_lines_is_secret_line_by_line() -> None:
    key = "-----BEGIN KEY-----\nAAAABBBBCCCCDDDD\nEEEEFFFFGGGGHHHH\n-----END KEY-----"
    assert secrets({"DEPLOY_KEY": key}, {}, ()) == (key, "AAAABBBBCCCCDDDD", "EEEEFFFFGGGGHHHH")


@pytest.mark.parametrize("value", ["http://[::1", "://x:y@z", "http://user@host-without-password/", "http://:@h"])
def test_odd_urls_are_no_secret(value: str) -> None:
    assert secrets({"SOME_URL": value}, {}, ()) == ()


def test_no_built_in_agent_declares_what_is_nested_of_another() -> None:
    base = {name.replace("*", "X"): "1" for agent in AGENTS.values() for name in agent.nested}
    reached = {
        agent.name: {*child_environment(base, agent, add={}, pass_patterns=(), launch_env={})} & {*base}
        for agent in AGENTS.values()
    }
    assert {name: names for name, names in reached.items() if names} == {}


def test_patterns_match_as_those_of_a_shell_do() -> None:
    own = ("*", "**", "", "a*b", "?x", "[ab]*", "*mid*", "*end", "start*", "plain", "*a*b*")
    names = (
        "",
        "a",
        "ab",
        "aXb",
        "x",
        "xx",
        "bc",
        "amidb",
        "mid",
        "theend",
        "end",
        "starts",
        "start",
        "plain",
        "plainly",
    )
    every = ((name, pattern) for name in (*names, *ALLOWED, "X_API_KEY") for pattern in (*own, *ALLOWED, *SECRET))
    assert [pair for pair in every if matches(pair[0], (pair[1],)) is not fnmatchcase(*pair)] == []
