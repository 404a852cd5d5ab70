"""What launches do about what a folder brings: it counts where the user trusts it, and nowhere else."""

import contextlib
import json
from typing import Any

import pytest
from msgspec import structs

from agents.replayed import turn_of
from ostler.access import Access
from ostler.agents import AGENTS, Agent
from ostler.agents.acp import any_agent as any_acp
from ostler.errors import OstlerError
from ostler.model import Host, Launch, McpServer

FOLDER = "/home/ann/app"
HOST = Host(executable="/bin/it", private="/private", levels=(FOLDER, "/home/ann"))
OTHERS = {"codex-acp": ("codex-acp",), "claude-agent-acp": ("claude-agent-acp",), "mine": ("my-agent", "--acp")}


def agent_of(name: str) -> Agent:
    return any_acp.agent_of(name, OTHERS[name]) if name in OTHERS else AGENTS[name]


def launched(name: str, *config: str, trusted: bool = False, **fields: Any) -> Launch:
    agent = agent_of(name)
    dialog = fields.get("transport") == "dialog" or not agent.one_shot
    host = structs.replace(HOST, project_config=tuple(f"{FOLDER}/{path}" for path in config), trusted=trusted)
    turn = turn_of(name, **{"folder": FOLDER, "access": "read", **fields})
    return agent.dialog.launch(turn, host) if dialog and agent.dialog else agent.launch(turn, host)


def refused(name: str, *config: str, **fields: Any) -> OstlerError:
    with pytest.raises(OstlerError) as caught:
        launched(name, *config, **fields)
    assert caught.value.kind == "denied" and "`ostler trust`" in caught.value.hint
    return caught.value


@pytest.mark.parametrize("transport", ["pipe", "dialog"])
@pytest.mark.parametrize("access", ["read", "write", "full"])
def test_claude_takes_the_users_settings_alone(access: Access, transport: str) -> None:
    for config in ((), (".claude/settings.json",)):
        assert "--setting-sources=user" in launched("claude", *config, access=access, transport=transport).argv
    trusted = launched("claude", ".claude/settings.json", trusted=True, access=access, transport=transport)
    assert not [flag for flag in trusted.argv if flag.startswith("--setting-sources")]


@pytest.mark.parametrize("transport", ["pipe", "dialog"])
@pytest.mark.parametrize("access", ["read", "write", "full"])
def test_codex_is_told_of_every_folder_up_to_the_root(access: Access, transport: str) -> None:
    def level(trusted: bool) -> list[str]:
        argv = launched("codex", ".codex", trusted=trusted, access=access, transport=transport).argv
        return [flag for flag in argv if flag.startswith("--config=projects=")]

    for trusted, word in ((False, "untrusted"), (True, "trusted")):
        each = ",".join(f'"{folder}"={{trust_level="{word}"}}' for folder in (FOLDER, "/home/ann"))
        assert level(trusted) == [f"--config=projects={{{each}}}"]


@pytest.mark.parametrize("transport", ["pipe", "dialog"])
def test_opencode_is_refused_a_folder_with_settings(transport: str) -> None:
    error = refused("opencode", "opencode.json", ".opencode", transport=transport)
    assert error.message == (
        "opencode would load settings from /home/ann/app that you have not trusted: opencode.json, .opencode"
    )
    assert launched("opencode", transport=transport).env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    trusted = launched("opencode", "opencode.json", trusted=True, transport=transport)
    assert "OPENCODE_DISABLE_PROJECT_CONFIG" not in trusted.env


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("copilot", ".github/hooks"),
        ("copilot", ".claude/settings.json"),
        ("cursor", ".cursor"),
        ("codex-acp", ".codex"),
        ("mine", ".mcp.json"),
    ],
)
def test_agents_without_a_switch_are_refused(name: str, config: str) -> None:
    for transport in ("pipe", "dialog"):
        refused(name, config, transport=transport, access="full")
        assert launched(name, transport=transport, access="full")
        assert launched(name, config, transport=transport, access="full", trusted=True)
    assert config in agent_of(name).project_config


def test_copilot_takes_what_a_trusted_folder_brings() -> None:
    names = ("GITHUB_COPILOT_PROMPT_MODE_REPO_HOOKS", "GITHUB_COPILOT_PROMPT_MODE_WORKSPACE_MCP")
    assert launched("copilot", ".github/hooks", trusted=True).env == dict.fromkeys(names, "true")
    assert launched("copilot").env == {}


@pytest.mark.parametrize("access", ["read", "write", "full"])
def test_gemini_reads_settings_before_it_trusts_a_folder(access: Access) -> None:
    once = launched("gemini", ".gemini/settings.json", access=access)
    assert ("--skip-trust" in once.argv, once.env["GEMINI_CLI_TRUST_WORKSPACE"]) == (True, "false")
    refused("gemini", ".gemini/settings.json", ".env", access=access)  # which it reads after that
    dialog = launched("gemini", ".env", access=access, transport="dialog")
    assert ("--skip-trust" in dialog.argv, dialog.env["GEMINI_CLI_TRUST_WORKSPACE"]) == (False, "false")
    for launch in (once, dialog):  # older ones know no `false`
        folders = json.loads(launch.files[launch.env["GEMINI_CLI_TRUSTED_FOLDERS_PATH"]])
        assert folders == {FOLDER: "DO_NOT_TRUST", "/home/ann": "DO_NOT_TRUST"}
        assert launch.settings["security"] == {"folderTrust": {"enabled": True}}
    names = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")
    assert {name: dialog.default_env[name] for name in names} == dict.fromkeys(names, "")  # else it takes the folder's
    for transport in ("pipe", "dialog"):
        trusted = launched("gemini", ".env", trusted=True, access=access, transport=transport)
        assert not {*names} & {*trusted.default_env}
        assert trusted.env["GEMINI_CLI_TRUST_WORKSPACE"] == "true"
        assert "GEMINI_CLI_TRUSTED_FOLDERS_PATH" not in trusted.env
        assert "security" not in trusted.settings


def test_qwen_is_given_a_list_in_which_the_folder_is_not_trusted() -> None:
    for fields in ({}, {"transport": "dialog", "access": "full"}):
        launch = launched("qwen", ".qwen", **fields)
        settings = launch.env["QWEN_CODE_SYSTEM_SETTINGS_PATH"]
        assert launch.files[settings] == b'{"$version": 4, "security": {"folderTrust": {"enabled": true}}}'
        folders = launch.files[launch.env["QWEN_CODE_TRUSTED_FOLDERS_PATH"]]
        assert folders == b'{"/home/ann/app": "DO_NOT_TRUST", "/home/ann": "DO_NOT_TRUST"}'
    for trusted in (launched("qwen"), launched("qwen", ".qwen", trusted=True, access="full")):
        assert not [name for name in trusted.env if name.endswith("_PATH")] and trusted.files == {}


def test_qwen_asks_for_everything_in_such_a_folder_so_turns_of_one_process_only_read() -> None:
    for access in ("write", "full"):
        refused("qwen", ".qwen", access=access)


@pytest.mark.parametrize(("version", "taken"), [("0.23.0", False), ("0.24.2", False), ("0.24.4", True), ("1.0", True)])
def test_an_older_qwen_may_be_told_by_its_user_to_ask_for_no_trust(version: str, taken: bool) -> None:
    host = structs.replace(HOST, version=version)
    turn = turn_of("qwen", folder=FOLDER, access="read", transport="dialog")
    assert AGENTS["qwen"].launch(turn, host)
    with contextlib.nullcontext() if taken else pytest.raises(OstlerError, match="that you have not trusted"):
        AGENTS["qwen"].launch(turn, structs.replace(host, project_config=(f"{FOLDER}/.qwen",)))


def test_settings_of_the_system_are_not_displaced() -> None:
    host = structs.replace(
        HOST, project_config=(f"{FOLDER}/.qwen",), folder_names=frozenset(("/etc/qwen-code/settings.json",))
    )
    with pytest.raises(OstlerError) as caught:
        AGENTS["qwen"].launch(turn_of("qwen", folder=FOLDER, access="read"), host)
    assert caught.value.kind == "denied" and "/etc/qwen-code/settings.json" in AGENTS["qwen"].folder_names


@pytest.mark.parametrize(("name", "config"), [("gemini", ".gemini/settings.json"), ("qwen", ".qwen")])
def test_servers_that_would_not_be_started_are_refused(name: str, config: str) -> None:
    fields = {"access": "full", "transport": "dialog", "mcp": (McpServer(name="db", command="db"),)}
    refused(name, config, **fields)
    assert launched(name, **fields) and launched(name, config, trusted=True, **fields)


def test_where_instructions_have_to_be_handed_over() -> None:
    def told(name: str, config: tuple[str, ...] = ("/x",), trusted: bool = False, **fields: Any) -> bool:
        host = structs.replace(HOST, project_config=config, trusted=trusted)
        return agent_of(name).passes_over(turn_of(name, **fields), host) and bool(agent_of(name).instructions)

    assert [name for name in (*AGENTS, *OTHERS) if told(name, trusted=True)] == []
    assert {name for name in (*AGENTS, *OTHERS) if told(name)} == {
        *("claude", "codex", "opencode", "qwen", "claude-agent-acp")
    }
    assert {name for name in AGENTS if told(name, config=())} == {"claude", "codex", "opencode"}
    assert told("gemini", transport="dialog") and not told("claude", lean=True)
