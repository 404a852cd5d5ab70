"""Rules that answer asks: the first that fits, and no shell trick gets past a pattern that allows."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ostler.agents import AGENTS
from ostler.errors import OstlerError
from ostler.model import Asked, FileChange
from ostler.settings import AskRule
from ostler.work.dialogs.ask_rules import beyond_write, check_rules, rule_for

FOLDER = "/home/me/project"


def ruled(asked: Asked, *rules: AskRule, agent: str = "claude") -> tuple[str, str]:
    return rule_for(rules, asked, agent=AGENTS[agent], folder=FOLDER)


def shell(command: Any) -> Asked:
    return Asked(id="1", tool="Bash", input={"command": command})


def edit(*paths: str) -> Asked:
    return Asked(id="1", tool="Edit", files=tuple(FileChange(path=path) for path in paths))


def test_without_a_rule_a_person_is_asked() -> None:
    assert ruled(shell("ls")) == ("ask", "")
    assert ruled(shell("ls"), AskRule(answer="allow", agent="codex")) == ("ask", "")


def test_the_first_that_fits_counts() -> None:
    rules = (AskRule(answer="deny", command="git push*"), AskRule(answer="allow", command="git *"))
    assert ruled(shell("git push --force"), *rules) == ("deny", "rule 1")
    assert ruled(shell("git log"), *rules) == ("allow", "rule 2")
    assert ruled(shell("make"), *rules, AskRule(answer="deny")) == ("deny", "rule 3")
    assert ruled(shell("make"), AskRule(answer="ask"), AskRule(answer="allow")) == ("ask", "rule 1")


def test_tools_by_their_own_name_and_by_ours() -> None:
    assert ruled(shell("ls"), AskRule(answer="allow", tool="Bash"))[0] == "allow"
    assert ruled(shell("ls"), AskRule(answer="allow", tool="shell"))[0] == "allow"
    assert ruled(edit("a"), AskRule(answer="allow", tool="shell"))[0] == "ask"
    assert ruled(edit("a"), AskRule(answer="allow", tool="E*"), agent="codex")[0] == "allow"
    assert ruled(edit("a"), AskRule(answer="allow", agent="cl*", tool="edit"))[0] == "allow"


# What each agent asks with, one-shot names and those of dialogs: a rule by ostler's word meets all of them.
COMMANDS = {"claude": "Bash", "codex": "command_execution", "gemini": "run_shell_command", "opencode": "bash"}
COMMANDS |= {"qwen": "run_shell_command", "copilot": "bash", "cursor": "shell", "script": "shell"}
CHANGES = {"claude": "Edit", "codex": "file_change", "gemini": "replace", "opencode": "edit", "qwen": "edit"}
CHANGES |= {"copilot": "edit", "cursor": "edit", "script": "edit"}


@pytest.mark.parametrize("agent", [name for name, each in AGENTS.items() if each.one_shot])
def test_a_rule_by_ostlers_word_meets_every_agent(agent: str) -> None:
    rules = (AskRule(answer="deny", tool="shell"), AskRule(answer="ask", tool="edit"), AskRule(answer="allow"))
    command = Asked(id="1", tool=COMMANDS[agent], input={"command": "rm -rf build"})
    assert ruled(command, *rules, agent=agent) == ("deny", "rule 1")
    assert ruled(Asked(id="1", tool=CHANGES[agent]), *rules, agent=agent) == ("ask", "rule 2")
    # In a dialog by ACP the kind of a tool may be all that is told.
    assert ruled(Asked(id="1", tool="run it", category="shell"), *rules, agent=agent) == ("deny", "rule 1")


def patch(*changes: str, tool: str = "file_change") -> Asked:
    """What codex asks: one patch, of any number of files."""
    files = tuple(FileChange(path=f"{change}.py", change=change) for change in changes)  # type: ignore[arg-type]
    return Asked(id="1", tool=tool, files=files)


def rules(*words: str) -> tuple[AskRule, ...]:
    """`deny write`, …"""
    return tuple(AskRule(answer=answer, tool=tool) for answer, _, tool in (word.partition(" ") for word in words))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "given", "wanted"),
    [
        (["add"], ["deny write", "allow *"], ("deny", "rule 1")),
        (["add"], ["deny edit", "allow *"], ("deny", "rule 1")),
        (["add"], ["allow edit", "deny write"], ("deny", "rule 2")),
        (["add"], ["allow write", "deny edit"], ("deny", "rule 2")),
        (["add"], ["ask write", "allow edit"], ("ask", "rule 1")),
        (["add"], ["allow write"], ("allow", "rule 1")),
        (["add"], ["allow edit"], ("allow", "rule 1")),
        (["update"], ["deny write", "allow edit"], ("allow", "rule 2")),
        (["update"], ["allow write"], ("ask", "")),
        (["delete"], ["allow write"], ("ask", "")),
        (["update", "add"], ["allow write"], ("ask", "")),
        (["update", "add"], ["allow edit"], ("allow", "rule 1")),
        (["update", "add"], ["deny write", "allow *"], ("deny", "rule 1")),
        (["update", "add"], ["allow edit", "deny write"], ("deny", "rule 2")),
        (["delete", "add"], ["allow write", "allow edit"], ("allow", "rule 2")),
        (["add"], ["allow file_change", "deny write"], ("allow", "rule 1")),
    ],
)
def test_an_edit_that_adds_a_file_is_a_write_too(changes: list[str], given: list[str], wanted: tuple[str, str]) -> None:
    assert ruled(patch(*changes), *rules(*given), agent="codex") == wanted
    own = [word for word in given if "file_change" in word]
    if not own:  # an agent by ACP tells the kind of its tool alone
        for name in ("Edit files", "edit"):
            told = structs.replace(patch(*changes, tool=name), category="edit")
            assert ruled(told, *rules(*given), agent="opencode") == wanted


def test_a_rule_about_a_tool_that_no_agent_has_is_an_error() -> None:
    every = [agent for agent in AGENTS.values() if agent.one_shot]
    check_rules([AskRule(answer="deny", tool=tool) for tool in ("shell", "Bash", "file_change", "mcp", "")], every)
    for rule, said in (
        (AskRule(answer="deny", tool="shel"), "asks.1.tool: no agent has a tool 'shel'. Did you mean shell?"),
        (
            AskRule(answer="deny", tool="Bsh", agent="claude"),
            "asks.1.tool: claude has no tool 'Bsh'. Did you mean Bash?",
        ),
    ):
        with pytest.raises(OstlerError) as caught:
            check_rules([rule], every)
        assert (caught.value.kind, str(caught.value)) == ("bad_request", said)


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf /",
        "git status && rm -rf /",
        "git status || rm -rf /",
        "git status & rm -rf /",
        "git status | sh",
        "git status\nrm -rf /",
        "git status\rrm -rf /",
        "git status $(rm -rf /)",
        "git status `rm -rf /`",
        "git status ${IFS}rm",
        "git status $HOME",
        "git status > /etc/passwd",
        "git status < /etc/shadow",
        "git status <(rm -rf /)",
        "git status {a,b}",
        "git status \\\n; rm",
        "(git status)",
        "rm -rf /; git status",
        "xgit status",
        "GIT STATUS",
        ["git", "status;", "rm"],
    ],
)
def test_only_a_plain_command_is_allowed(command: Any) -> None:
    assert ruled(shell(command), AskRule(answer="allow", command="git status*"))[0] == "ask"


@pytest.mark.parametrize("command", ["git status", "  git status  ", "git status -s src/a.py", ["git", "status", "-s"]])
def test_a_plain_command(command: Any) -> None:
    assert ruled(shell(command), AskRule(answer="allow", command="git status*"))[0] == "allow"


@pytest.mark.parametrize(
    "command", ["rm -rf /", "ls; rm -rf /", "ls && rm x", "ls | rm x", "ls\nrm x", "echo $(rm x)", "`rm x`", "(rm x)"]
)
def test_a_part_of_a_command_is_enough_to_deny(command: str) -> None:
    assert ruled(shell(command), AskRule(answer="deny", command="rm *"))[0] == "deny"


def test_a_command_rule_never_fits_what_has_no_command() -> None:
    for asked in (
        edit("a"),
        Asked(id="1", tool="Bash"),
        shell(""),
        shell({"x": 1}),
        Asked(id="1", tool="x", input="ls"),
    ):
        assert ruled(asked, AskRule(answer="allow", command="*"))[0] == "ask"


@pytest.mark.parametrize(
    ("paths", "allowed"),
    [
        (("src/a.py",), True),
        (("./src/x/../a.py",), True),
        ((f"{FOLDER}/src/a.py",), True),
        (("src/../../other/a.py",), False),
        (("../project-2/src/a.py",), False),
        (("src/../secrets/key",), False),
        (("/etc/passwd",), False),
        (("src/a.py", "/etc/passwd"), False),
        (("src/a.py", "docs/b.md"), False),
        ((), False),
    ],
)
def test_all_paths_must_lie_where_it_is_allowed(paths: tuple[str, ...], allowed: bool) -> None:
    assert ruled(edit(*paths), AskRule(answer="allow", path="src/*"))[0] == ("allow" if allowed else "ask")


def test_any_pattern_stays_beneath_the_folder_unless_it_is_absolute() -> None:
    assert ruled(edit("../a"), AskRule(answer="allow", path="*"))[0] == "ask"
    assert ruled(edit("/etc/hosts"), AskRule(answer="allow", path="*"))[0] == "ask"
    assert ruled(edit("/etc/hosts"), AskRule(answer="allow", path="/etc/*"))[0] == "allow"
    assert ruled(edit("/etc/../home/x"), AskRule(answer="allow", path="/etc/*"))[0] == "ask"


def test_one_path_is_enough_to_deny() -> None:
    rule = AskRule(answer="deny", path="secrets/*")
    assert ruled(edit("src/a.py", "src/../secrets/key"), rule)[0] == "deny"
    assert ruled(Asked(id="1", tool="Read", input={"file_path": f"{FOLDER}/secrets/key"}), rule)[0] == "deny"
    assert ruled(edit("src/a.py"), rule)[0] == "ask"


def test_links_count_by_their_names_and_by_where_they_lead(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    for name in ("secrets", "tmp", "docs"):
        (folder / name).mkdir(parents=True)
    (folder / "tmp" / "link").symlink_to("../secrets/key")
    (folder / "docs" / "out").symlink_to("/etc")
    (tmp_path / "other").symlink_to(folder)

    def answer(path: str, rule: AskRule, root: Path = folder) -> str:
        return rule_for([rule], edit(path), agent=AGENTS["claude"], folder=str(root))[0]

    for pattern in ("secrets/*", "tmp/*", f"{folder}/secrets/*"):
        assert answer("tmp/link", AskRule(answer="deny", path=pattern)) == "deny", pattern
    for root in (folder, tmp_path / "other"):
        for pattern in ("docs/*", f"{root}/docs/*"):
            rule = AskRule(answer="allow", path=pattern)
            assert [answer(path, rule, root) for path in ("docs/a.md", "docs/out/passwd")] == ["allow", "ask"]


def test_a_name_that_begins_with_two_dots_lies_in_the_folder() -> None:
    assert ruled(edit("..env"), AskRule(answer="deny", path="*"))[0] == "deny"
    assert ruled(edit("..env/a"), AskRule(answer="allow", path="..env/*"))[0] == "allow"
    assert not beyond_write(edit("..env"), FOLDER)


def test_an_edit_that_leads_out_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path)
    (folder / "loop").symlink_to("src")
    inside = ("a.py", "src/new/b.py", "loop/c.py", str(folder / "d.py"))
    outside = ("link/a.py", "../a.py", "loop/../../a.py", str(tmp_path / "a.py"), "/etc/passwd")
    for path in inside:
        assert not beyond_write(Asked(id="1", tool="edit", files=(FileChange(path=path),)), str(folder)), path
    for path in outside:
        files = (FileChange(path="a.py"), FileChange(path=path))
        assert beyond_write(Asked(id="1", tool="edit", files=files), str(folder)), path


def test_an_edit_of_what_is_guarded(tmp_path: Path) -> None:
    """Also by a link, and whatever stands there."""
    folder = tmp_path / ".claude" / "worktrees" / "project"  # a folder that lies in such a place is none itself
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / "loop").symlink_to(".git/hooks")
    (folder / "one.py").symlink_to(".git/config")
    (tmp_path / "other").symlink_to(folder)
    free = ("a.py", "src/hooks/b.py", ".gitignore", ".github/workflows/x.yml", "claude/x", str(folder / "d.py"))
    for root in (folder, tmp_path / "other"):
        for path in free:
            assert not beyond_write(Asked(id="1", tool="edit", files=(FileChange(path=path),)), str(root)), path
        for path in (".git/hooks/pre-commit", "loop/pre-commit", "one.py", ".claude/settings.json", ".GIT/config"):
            assert beyond_write(Asked(id="1", tool="edit", files=(FileChange(path=path),)), str(root)), path
