"""Tools in ostler's words: every agent's own names, one-shot and in dialogs; recorded turns where there are any."""

from typing import Any

import pytest

from agents.acp_replayed import Replay
from agents.codex_played import Played, recorded
from agents.replayed import CAPTURES, cases, lines, replay, replay_lines
from ostler.agents import AGENTS
from ostler.agents.acp.known import KNOWN
from ostler.agents.tools import category_of, unknown_tool, with_categories, with_category
from ostler.model import TOOL_WORDS, Asked, Notice, ToolStarted

BUILT_IN = [agent for agent in AGENTS.values() if agent.one_shot]  # other tests may have added some of settings
NAMES = {
    "claude": "Bash=shell Monitor=shell Read=read Edit=edit NotebookEdit=edit Write=write Grep=search WebFetch=web"
    " mcp__db__query=mcp TodoWrite=plan TaskCreate=plan TaskUpdate=plan Task=agent Skill=Skill",
    "codex": "command_execution=shell file_change=edit web_search=web spawn_agent=agent",
    "gemini": "run_shell_command=shell read_file=read replace=edit write_file=write grep_search=search"
    " google_web_search=web mcp_db_query=mcp write_todos=plan save_memory=save_memory",
    "qwen": "run_shell_command=shell read_file=read edit=edit write_file=write glob=search web_fetch=web"
    " mcp__db__query=mcp todo_write=plan agent=agent cron_create=cron_create",
    "opencode": "bash=shell read=read edit=edit multiedit=edit write=write grep=search webfetch=web todowrite=plan"
    " task=agent",
    "copilot": "bash=shell write_bash=shell view=read edit=edit apply_patch=edit create=write rg=search web_fetch=web"
    " update_todo=plan task=agent",
    "cursor": "shell=shell read=read edit=edit delete=edit write=write grep=search webFetch=web mcp=mcp"
    " updateTodos=plan",
    "script": "shell=shell write=write plan=plan frob=frob",
}


@pytest.mark.parametrize(("agent", "pair"), [(agent, pair) for agent, told in NAMES.items() for pair in told.split()])
def test_names_of_every_agent(agent: str, pair: str) -> None:
    name, word = pair.split("=")
    assert category_of(name, AGENTS[agent].tools) == word


@pytest.mark.parametrize("agent", [*BUILT_IN, *KNOWN.values()], ids=lambda agent: agent.name)
def test_tables_have_no_other_words_and_each_name_once(agent: Any) -> None:
    if agent.tools:
        assert {*agent.tools} <= {*TOOL_WORDS}
        names = [name for each in agent.tools.values() for name in each] + [*agent.own_tools]
        assert len(names) == len({*names})
        assert agent.tools["shell"], "rules about commands are what people write first"


def test_every_built_in_agent_has_a_table() -> None:
    assert all(agent.tools for agent in BUILT_IN)


# -- recorded: what real CLIs called their tools ----------------------------------------------------------

SHELL_NAMES = {"claude": "Bash", "codex": "command_execution", "qwen": "run_shell_command", "opencode": "bash"}
SHELL_NAMES |= {"copilot": "bash", "gemini": "run_shell_command"}


@pytest.mark.parametrize("agent", SHELL_NAMES)
def test_recorded_one_shot_turns(agent: str) -> None:
    """Whatever tool a recorded turn called, it has a word or is known to have none."""
    seen: dict[str, str] = {}
    for case in (case for case in cases(agent) if (CAPTURES / agent / f"{case}.meta.json").exists()):
        events = with_categories(replay(agent, case)[0], AGENTS[agent].tools)
        seen |= {event.name: event.category for event in events if isinstance(event, ToolStarted)}
    assert seen[SHELL_NAMES[agent]] == "shell", seen
    unknown = {name for name, word in seen.items() if word not in TOOL_WORDS}
    assert unknown <= {*AGENTS[agent].own_tools, "no_such_tool", "NoSuchTool"}, seen


@pytest.mark.parametrize("name", ["acp/claude-agent-acp", "acp/codex-acp-escalate", "acp/copilot", "acp/opencode"])
def test_recorded_dialogs_by_acp(name: str) -> None:
    """Also where nothing is known of an agent: the protocol has kinds of tools."""
    replayed = Replay(name)
    told = [event for events in replayed.events for event in events if isinstance(event, ToolStarted)]
    asked = [ask.asked for ask in replayed.asks]
    words = {with_category(event, {}).category for event in (*told, *asked)}
    assert "shell" in words and words <= {*TOOL_WORDS}


def test_recorded_dialogs_of_codex() -> None:
    tools, played = AGENTS["codex"].tools, recorded("approvals-untrusted", access="full")
    assert {(ask.tool, with_category(ask, tools).category) for ask in played.asks} == {("command_execution", "shell")}
    patch = Played(access="full").begun()
    patch.item("started", id="call_1", type="fileChange", changes=[]).asked("fileChange")
    started = [event for event in patch.events if isinstance(event, ToolStarted)]
    assert [with_category(event, tools).category for event in (*started, *patch.asks)] == ["edit", "edit"]


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"type": "mcp_tool_call", "server": "db", "tool": "query", "arguments": {}}, ("db.query", "mcp")),
        ({"type": "collab_tool_call", "tool": "frob_agent", "prompt": "x"}, ("frob_agent", "agent")),
    ],
)
def test_codex_says_itself_what_is_of_a_server_or_of_an_agent(item: dict[str, Any], told: tuple[str, str]) -> None:
    tools, whole = AGENTS["codex"].tools, {"id": "i1", "status": "completed", **item}
    events, _ = replay_lines("codex", lines({"type": "item.completed", "item": whole}))
    kind = {"mcp_tool_call": "mcpToolCall", "collab_tool_call": "collabAgentToolCall"}[item["type"]]
    events += Played(access="full").begun().item("completed", **{**whole, "type": kind}).events
    started = [event for event in with_categories(events, tools) if isinstance(event, ToolStarted)]
    assert [(event.name, event.category) for event in started] == [told, told]


# -- events -----------------------------------------------------------------------------------------------


def test_what_an_adapter_says_itself_counts_where_the_table_is_silent() -> None:
    tools = {"shell": ("Bash",)}
    assert with_category(ToolStarted(id="1", name="Bash", category="read"), tools).category == "shell"
    assert with_category(ToolStarted(id="1", name="Sh", category="shell"), tools).category == "shell"
    assert with_category(Asked(id="1", tool="Sh"), tools).category == "Sh"
    notice = Notice(text="x")
    assert with_categories([notice], tools) == [notice]


# -- rules about tools ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        *TOOL_WORDS,
        *("Bash", "command_execution", "run_shell_command", "Skill", "mcp__db__query", "mcp__*", "*", "Web*", "edit*"),
        *("db.query", "weather-lookup", "weather_lookup"),  # tools of MCP servers
    ],
)
def test_tools_that_some_agent_has(pattern: str) -> None:
    assert unknown_tool(pattern, BUILT_IN) == ""


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("shel", "Did you mean shell?"),
        ("comand_execution", "Did you mean command_execution?"),
        ("frobnicate", "ostler's words are shell, read, edit, write, search, web, mcp, plan, agent"),
        ("Frob*", "ostler's words are shell, read, edit, write, search, web, mcp, plan, agent"),
    ],
)
def test_tools_that_no_agent_has(pattern: str, hint: str) -> None:
    assert unknown_tool(pattern, BUILT_IN) == hint


def test_an_agent_of_the_settings_may_have_any_tool() -> None:
    from ostler.agents.acp.any_agent import agent_of

    assert unknown_tool("frobnicate", [*BUILT_IN, agent_of("mine", ["mine-acp"])]) == ""
    assert unknown_tool("Bash", [AGENTS["codex"]]) != ""
