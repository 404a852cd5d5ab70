"""What a folder brings for an agent: found, hashed, described and trusted, whoever wrote it."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import structs

from ostler.agents import AGENTS, Agent
from ostler.agents.acp.any_agent import UNKNOWN
from ostler.agents.plain import plain_agent
from ostler.model import PlainAgent
from ostler.settings import record_answer, recorded_answers
from ostler.work import project_config as module
from ostler.work.project_config import (
    MAX_TEXT,
    Instructions,
    ProjectConfig,
    instructions,
    read_project_config,
    remember_answer,
)

PLAIN = plain_agent("mine", PlainAgent(command=("mine",)))
AGENT = structs.replace(
    AGENTS["script"], project_config=(".it/settings.json", ".it/plugins", "it.json"), project_config_above=(".env",)
)


class Project:
    def __init__(self, base: Path) -> None:
        self.home, self.root = base / "home", base / "home" / "project"
        self.folder = self.root / "sub"
        self.folder.mkdir(parents=True)
        (self.root / ".git").mkdir()
        self.list = str(base / "state" / "trusted.json")

    def write(self, name: str, text: str = "{}") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def look(self, agent: Agent = AGENT, folder: Path | None = None) -> ProjectConfig:
        return read_project_config(str(folder or self.folder), agent, str(self.home), recorded_answers(self.list))

    def names(self, folder: Path | None = None) -> list[str]:
        return [os.path.relpath(path, self.root) for path in self.look(folder=folder).paths]

    def trust(self, trusted: bool = True) -> None:
        remember_answer(self.look(), AGENT, self.list, trusted)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


# -- where ------------------------------------------------------------------------------------------


def test_folders_up_to_the_git_root_are_looked_at(project: Project) -> None:
    (project.home / "it.json").write_text("{}")
    project.write("it.json")
    project.write("sub/.it/settings.json")
    project.write("other/it.json")
    assert project.names() == ["sub/.it/settings.json", "it.json"]
    assert project.names(project.root) == ["it.json"]
    assert project.look().levels == (str(project.folder), str(project.root))


def test_some_names_count_above_the_git_root_too_but_not_at_home(project: Project) -> None:
    nested = project.folder / "nested"
    (nested / ".git").mkdir(parents=True)
    project.write("it.json")
    project.write(".env")
    (project.home / ".env").write_text("A=1")
    assert project.names(nested) == [".env"]


def test_without_git_the_folder_alone_counts_or_all_above_it(project: Project) -> None:
    (project.root / ".git").rmdir()
    project.write("it.json")
    assert project.names() == []
    assert project.look().levels == (str(project.folder),)
    further = structs.replace(AGENT, without_git=True)
    assert project.look(further).paths == (str(project.root / "it.json"),)


def test_the_home_folder_brings_nothing(project: Project) -> None:
    (project.home / "it.json").write_text("{}")
    assert project.look(folder=project.home).places == ()
    (project.home / ".git").mkdir()  # a repository of dot files
    (project.root / ".git").rmdir()
    assert project.names() == []


def test_below_a_home_folder_in_git_all_folders_count(project: Project) -> None:
    """As for codex, which looks for its settings up to the git root, and may have been told to trust that."""
    (project.root / ".git").rmdir()
    (project.home / ".git").mkdir()
    (project.home / "it.json").write_text("{}")
    project.write("it.json")
    assert project.names() == ["it.json"]
    assert project.look().levels == (str(project.folder), str(project.root))
    (project.home / ".git").rmdir()
    (project.home.parent / ".git").mkdir()
    assert project.names() == ["it.json"]


@pytest.mark.parametrize("agent", [UNKNOWN, PLAIN], ids=["acp", "plain"])
def test_for_an_agent_that_nobody_knows_all_counts_that_any_would_take(project: Project, agent: Agent) -> None:
    (project.root / ".git").rmdir()
    for name in ("opencode.json", ".env", ".gemini/.env"):
        project.write(name)
        assert project.look(agent).paths == (str(project.root / name),)
        (project.root / name).unlink()
    project.write("sub/.gemini/.env")
    assert project.look(agent).paths == (str(project.folder / ".gemini/.env"),)


def test_an_agent_that_takes_nothing_is_brought_nothing(project: Project) -> None:
    project.write("it.json")
    assert project.look(AGENTS["script"]).places == ()


# -- trust ------------------------------------------------------------------------------------------


def test_folders_without_a_file_bring_nothing(project: Project) -> None:
    for name in (".claude/commands/deep", ".claude/agents", ".codex", ".qwen/hooks"):
        (project.root / name).mkdir(parents=True)
    (project.root / ".claude/notes.md").touch()
    for name in ("claude", "codex", "qwen"):
        assert project.look(AGENTS[name], project.root).places == ()
    (project.root / ".claude/commands/deep/c.md").touch()
    (project.root / ".codex/linked").symlink_to("/")
    assert [place.names for place in project.look(AGENTS["claude"], project.root).places] == [(".claude/commands",)]
    assert [place.names for place in project.look(AGENTS["codex"], project.root).places] == [(".codex",)]


def test_nothing_is_trusted_where_nothing_is_brought(project: Project) -> None:
    found = project.look()
    assert (found.places, found.trusted, found.answered) == ((), False, True)


def test_trust_is_for_a_content(project: Project) -> None:
    path = project.write(".it/settings.json", '{"a": 1}')
    found = project.look()
    assert (found.trusted, found.answered, found.changed) == (False, False, False)
    project.trust()
    found = project.look()
    assert (found.trusted, found.answered) == (True, True)
    assert project.look(folder=project.root).trusted  # the place is trusted, wherever it is seen from
    path.write_text('{"a": 2}')
    found = project.look()
    assert (found.trusted, found.answered, found.changed) == (False, False, True)
    path.write_text('{"a": 1}')
    assert project.look().trusted


def test_what_comes_later_is_not_trusted(project: Project) -> None:
    project.write("it.json")
    project.trust()
    project.write(".it/plugins/new.js", "evil()")
    assert not project.look().trusted
    project.trust()
    assert project.look().trusted
    project.write("sub/it.json")
    assert not project.look().trusted and project.look(folder=project.root).trusted


def test_a_no_is_kept_and_a_yes_replaces_it(project: Project) -> None:
    project.write("it.json")
    project.trust(False)
    found = project.look()
    assert (found.trusted, found.answered, found.changed) == (False, True, False)
    project.trust()
    assert project.look().trusted


def test_an_answer_holds_for_every_agent_that_finds_the_same(project: Project) -> None:
    project.write("it.json")
    place = project.look().places[0]
    record_answer(project.list, place.folder, "another", place.digest, False)
    assert project.look().answered
    project.trust()
    assert project.look().trusted
    record_answer(project.list, place.folder, "another", "0" * 64, True)
    assert project.look().trusted


def test_a_name_is_part_of_the_content(project: Project) -> None:
    first = project.write(".it/plugins/a.js", "1")
    project.trust()
    first.rename(first.with_name("b.js"))
    assert not project.look().trusted


def test_packages_that_an_agent_installs_beside_its_settings_are_not_looked_at(project: Project) -> None:
    opencode = AGENTS["opencode"]
    for path in ("node_modules/x/index.js", "package.json", "package-lock.json", "bun.lock", "bun.lockb", ".gitignore"):
        project.write(f".opencode/{path}")
    assert project.look(opencode).places == ()
    project.write(".opencode/plugin/a.js")
    remember_answer(project.look(opencode), opencode, project.list, True)
    project.write(".opencode/node_modules/x/other.js")
    project.write(".opencode/package.json", '{"dependencies": {}}')
    assert project.look(opencode).trusted


def test_the_names_of_such_packages_are_seen_anywhere_else(project: Project) -> None:
    """As a hook of copilot's in `.github/hooks/package.json`, or a plugin of opencode's further down."""
    for agent, path, names in (
        ("copilot", ".github/hooks/package.json", (".github/hooks",)),
        ("opencode", ".opencode/plugin/node_modules/evil.js", (".opencode",)),
        ("opencode", "sub/.opencode/plugin/package.json", (".opencode",)),
        ("claude", ".claude/commands/node_modules/evil.md", (".claude/commands",)),
    ):
        written = project.write(path)
        (place,) = project.look(AGENTS[agent]).places
        assert (place.names, bool(place.digest)) == (names, True), path
        written.write_text("changed")
        assert project.look(AGENTS[agent]).places[0].digest != place.digest
        written.unlink()


# -- hostile ----------------------------------------------------------------------------------------


def refused(project: Project) -> str:
    """Why what is there can never be trusted; it is brought all the same."""
    project.trust()
    found = project.look()
    assert found.places and not found.trusted and not found.answered
    return found.places[0].problem


def test_a_pipe_does_not_hang(project: Project) -> None:
    os.mkfifo(project.root / "it.json")
    assert refused(project) == "it.json cannot be read as a file of this folder"


def test_a_socket_is_no_file(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root)  # its path may be too long for a socket
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("it.json")
    assert refused(project) == "it.json cannot be read as a file of this folder"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside.json", "gone", "it.json", "/proc/self/mem"])
def test_a_link_out_of_the_project_is_not_followed(project: Project, target: str) -> None:
    (project.home / "outside.json").write_text("{}")
    (project.root / "it.json").symlink_to(target)
    assert refused(project) == "it.json cannot be read as a file of this folder"


def test_a_link_inside_of_the_project_is_read_through(project: Project) -> None:
    shared = project.write("shared/it.json", '{"hooks": {"Stop": [{"command": "x"}]}}')
    (project.folder / "it.json").symlink_to("../shared/it.json")
    project.trust()
    assert project.look().trusted and project.look().described() == "1 hook (it.json)"
    shared.write_text("{}")
    assert not project.look().trusted


def test_a_huge_file_is_not_read_to_its_end(project: Project) -> None:
    with open(project.root / "it.json", "wb") as file:
        file.truncate(1 << 40)
    assert refused(project) == "it.json is larger than ostler looks at"


def test_a_folder_of_many_files_or_many_levels_is_left(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 20)
    for number in range(30):
        project.write(f".it/plugins/{number}.js")
    assert refused(project).endswith("holds more files than ostler looks at")


def test_deep_folders_are_left(project: Project) -> None:
    project.write(".it/plugins/" + "a/" * 12 + "x.js")
    assert refused(project).endswith("holds more files than ostler looks at")


def test_a_loop_of_links_ends(project: Project) -> None:
    project.write(".it/plugins/a.js")
    (project.root / ".it/plugins/loop").symlink_to(".")
    assert refused(project)


def test_a_folder_in_the_place_of_a_file_counts(project: Project) -> None:
    project.write("it.json/x.json", '{"mcpServers": {"a": {}, "b": {}}}')
    assert project.look().described() == "2 MCP servers (../it.json)"


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Root reads everything: for a moment it is somebody who may only walk through to this folder."""
    if os.geteuid() != 0:
        yield
        return
    for each in (folder, *folder.parents[:-1]):
        each.chmod(each.stat().st_mode | 0o011)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_cannot_be_read_is_not_trusted(project: Project) -> None:
    project.write("it.json").chmod(0)
    with as_nobody(project.folder):
        assert refused(project) == "it.json cannot be read as a file of this folder"


# -- instructions -----------------------------------------------------------------------------------

GROUPS = (("A.override.md", "A.md"), ("B.md",), ("rules",))


def of(project: Project) -> Instructions:
    return instructions(project.look().levels, GROUPS)


def told(project: Project) -> str:
    return of(project).text


def test_instructions_of_all_levels_the_nearest_last(project: Project) -> None:
    assert told(project) == ""
    project.write("A.md", "of the root\n")
    project.write("sub/A.md", "hidden")
    project.write("sub/A.override.md", "of sub")
    project.write("sub/B.md", "more")
    (project.home / "A.md").write_text("above")
    assert told(project) == (
        "Instructions of this project, from its own files:\n\n"
        '<instructions file="A.md">\nof the root\n</instructions>\n\n'
        '<instructions file="sub/A.override.md">\nof sub\n</instructions>\n\n'
        '<instructions file="sub/B.md">\nmore\n</instructions>'
    )


def test_a_folder_of_rules_and_imports(project: Project) -> None:
    project.write("rules/one.md", "first")
    project.write("rules/two.txt", "not this")
    project.write("A.md", "See @docs/style.md and @docs/style.md, mail me@b.md, `@B.md`; @../outside.md @A.md")
    project.write("docs/style.md", "Use tabs. @more.md")
    project.write("docs/more.md", "Really.")
    (project.home / "outside.md").write_text("secret")
    text = told(project)
    assert [text.count(words) for words in ("Use tabs.", "Really.", "first", "not this", "secret")] == [1, 1, 1, 0, 0]


def test_instructions_are_bounded_and_stay_in_the_project(project: Project) -> None:
    (project.home / "secret").write_text("secret")
    (project.folder / "A.md").symlink_to("../../secret")
    os.mkfifo(project.folder / "B.md")
    project.write("A.md", "x" * 300_000)
    text = told(project)
    assert "secret" not in text and 100_000 < len(text) < 140_000
    assert of(project).cut == ("A.md",)


def test_what_was_left_out_of_the_instructions_is_named(project: Project) -> None:
    project.write("A.md", "x" * MAX_TEXT)
    assert of(project).cut == ()
    project.write("sub/A.md", "more @big.md")
    project.write("sub/big.md", "x")
    assert of(project).cut == ("sub/A.md",)
    project.write("A.md", f"{'x' * (MAX_TEXT - 20)} @sub/big.md")
    project.write("sub/big.md", "x" * 100)
    assert of(project).cut == ("sub/big.md", "sub/A.md")


def test_a_link_to_another_file_of_the_project_is_read(project: Project) -> None:
    project.write("docs/guide.md", "Be kind.")
    (project.root / "A.md").symlink_to("docs/guide.md")
    assert "Be kind." in told(project)
