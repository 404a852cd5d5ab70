"""Rules that answer asks: the first that fits, and no shell trick gets past a pattern that allows."""

from pathlib import Path
from typing import Any

import pytest

from ostler.settings import AskRule
from ostler.words import Asked, FileChange
from ostler.work.ask_rules import command_of, leads_out, paths_of, rule_for

FOLDER = "/home/me/project"
TOOLS = {"shell": ("Bash",), "edit": ("Edit", "MultiEdit")}


def ruled(asked: Asked, *rules: AskRule, agent: str = "claude") -> tuple[str, str]:
    return rule_for(rules, asked, agent=agent, folder=FOLDER, tools=TOOLS)


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


def test_what_an_ask_is_about() -> None:
    assert command_of({"command": ["ls", "-l"]}) == "ls -l"
    assert [command_of(value) for value in (None, [], {}, {"command": 3}, {"cmd": "ls"})] == ["", "", "", "", "ls"]
    asked = Asked(id="1", tool="x", input={"path": "b", "filePath": 3}, files=(FileChange(path="a"),))
    assert paths_of(asked) == ["a", "b"]


def test_an_edit_that_leads_out_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path)
    (folder / "loop").symlink_to("src")
    inside = ("a.py", "src/new/b.py", "loop/c.py", str(folder / "d.py"))
    outside = ("link/a.py", "../a.py", "loop/../../a.py", str(tmp_path / "a.py"), "/etc/passwd")
    for path in inside:
        assert not leads_out(Asked(id="1", tool="edit", files=(FileChange(path=path),)), str(folder)), path
    for path in outside:
        files = (FileChange(path="a.py"), FileChange(path=path))
        assert leads_out(Asked(id="1", tool="edit", files=files), str(folder)), path
