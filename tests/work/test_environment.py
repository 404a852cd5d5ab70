"""What reaches an agent of the environment, and which values are secret."""

import pytest
from msgspec import structs

from ostler.agents import AGENTS
from ostler.agents.adapter import Agent
from ostler.work.environment import QUIET, Environment, child_environment, secrets

AGENT: Agent = structs.replace(
    AGENTS["script"], name="probe", env=("OPENAI_*", "MY_SETTING"), drop=("NODE_OPTIONS", "OPENAI_DEBUG"), keys=()
)


def made(base: dict[str, str], **more: object) -> Environment:
    options = {"add": {}, "pass_patterns": (), "launch_env": {}, **more}
    return child_environment(base, AGENT, **options)  # type: ignore[arg-type]


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
    assert made(base) == Environment(expected, ("AWS_PROFILE", "GITHUB_TOKEN"))


def test_patterns_pass_more() -> None:
    done = made({"FOO_A": "1", "FOO_B": "2", "BAR": "3"}, pass_patterns=("FOO_*",))
    assert done == Environment({"FOO_A": "1", "FOO_B": "2"} | QUIET, ())


def test_variables_of_an_outer_agent_and_dropped_ones_never_pass() -> None:
    outer = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "AI_AGENT", "CODEX_SANDBOX_NETWORK_DISABLED", "GEMINI_CLI")
    base = dict.fromkeys((*outer, "NODE_OPTIONS", "OPENAI_DEBUG"), "1")
    assert made(base, pass_patterns=("*",)) == Environment(dict(QUIET), tuple(sorted(base)))
    assert (
        made(base, add={"CLAUDECODE": "2", "NODE_OPTIONS": "x"}).env
        == {
            "CLAUDECODE": "2",
            "NODE_OPTIONS": "x",
        }
        | QUIET
    )


def test_variables_of_ostler_stay_with_it() -> None:
    assert made({"OSTLER_HOME": "/s", "OSTLER_API_KEY": "k"}, pass_patterns=("*",)) == Environment(dict(QUIET), ())
    script = child_environment(
        {"OSTLER_SCENARIO": "f", "OSTLER_HOME": "/s"}, AGENTS["script"], add={}, pass_patterns=(), launch_env={}
    )
    assert "OSTLER_HOME" not in script.env


def test_launch_comes_after_what_the_user_adds_and_that_after_the_rest() -> None:
    done = made(
        {"TERM": "base", "HOME": "base"},
        add={"TERM": "add", "HOME": "add", "PAGER": "less"},
        launch_env={"HOME": "launch"},
    )
    assert done.env == {"TERM": "add", "HOME": "launch"} | QUIET | {"PAGER": "less"}


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
