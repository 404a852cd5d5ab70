"""The documentation is held to the code: tables, lists, links, commands, snippets and transcripts."""

import ast
import importlib.util
import inspect
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
import pytest
from msgspec.structs import fields

from needs import needs
from ostler.agents import AGENTS
from ostler.cli import cli
from ostler.cli.model import SCENARIOS
from ostler.errors import KINDS
from ostler.model import (
    AnyEvent,
    AskOption,
    Denial,
    Envelope,
    Event,
    Exit,
    FileChange,
    Limits,
    Offer,
    Outcome,
    PlanStep,
    Problem,
    Usage,
)
from ostler.settings import AskRule, McpEntry, Profile, unsafe_keys
from ostler.settings.keys import FILE_KEYS
from ostler.settings.load import VARIABLES
from ostler.settings.template import template
from ostler.testing.scenario import REPLY_KEYS, SCENARIO_KEYS, STEPS
from ostler.work import Ostler
from ostler.work.turns.keywords import RunKeywords
from prefork import ostler_on_path

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md", *DOCS]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)

by_name = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def blocks(page: Path, language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(page.read_text()) if kind == language]


def rows(text: str, head: str) -> list[list[str]]:
    """The cells of the table whose first line is `head`."""
    assert f"\n{head}\n" in text, f"no table {head}"
    lines = text.split(f"\n{head}\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def column(text: str, head: str) -> list[str]:
    """The first column, without backticks."""
    return [row[0].strip("`") for row in rows(text, head)]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def names_of(struct: Any) -> list[str]:
    return [field.name for field in fields(struct)]


# -- tables -----------------------------------------------------------------------------------------


def tables() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_tables_are_up_to_date() -> None:
    made = tables()
    found = [name for page in PAGES for _, name, _, _ in made.BLOCK.findall(page.read_text())]
    assert {"abilities", "access", "flags-run"} <= set(found)
    assert [page.name for page in PAGES if made.filled(page.read_text()) != page.read_text()] == [], "run `make tables`"


def test_dependencies_are_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["otel"]]
    declared = [re.split(r"[<>=!~\[ ]", entry)[0] for entry in wanted]
    assert sorted(column((ROOT / "README.md").read_text(), "| package | why |")) == sorted(declared)


# -- lists of nouns ---------------------------------------------------------------------------------


def test_every_event_and_its_fields_are_documented() -> None:
    common = set(names_of(Event))
    known = {
        event.__struct_config__.tag: (event.__name__, [name for name in names_of(event) if name not in common])
        for event in get_args(AnyEvent)
    }
    told = rows(text_of("events.md"), "| kind | struct | fields | what it tells |")
    assert {named(kind)[0]: (named(struct)[0], named(cell)) for kind, struct, cell, _ in told} == known
    assert all(f"`{name}`" in text_of("events.md") for name in ("kind", *common))


def test_the_envelope_is_documented() -> None:
    assert column(text_of("events.md"), "| field | what it holds |") == names_of(Envelope)
    told = rows(text_of("events.md"), "| value | fields |")
    assert {named(value)[0]: named(cell) for value, cell in told} == {
        value.__name__: names_of(value)
        for value in (Usage, Problem, Denial, FileChange, Exit, PlanStep, AskOption, Offer)
    }


def test_outcomes_and_their_exit_codes_are_documented() -> None:
    told = rows(text_of("events.md"), "| outcome | status | exit code | meaning |")
    codes = {"done": 0, "timed_out": 124, "cancelled": 130}
    assert [(named(row[0])[0], int(row[2])) for row in told] == [
        (outcome, codes.get(outcome, 1)) for outcome in get_args(Outcome)
    ]


def test_error_kinds_and_their_exit_codes_are_documented() -> None:
    told = rows(text_of("events.md"), "| kind | exit code | meaning |")
    assert {named(kind)[0]: int(code) for kind, code, _ in told} == {kind: codes.exit for kind, codes in KINDS.items()}


def test_codes_of_notices_are_documented() -> None:
    told = {code for row in rows(text_of("events.md"), "| code | when |") for code in named(row[0])}
    source = "\n".join(path.read_text() for room in ("work", "agents", "store") for path in _sources(room))
    used = set(re.findall(r"""\bcode="(\w+)"|_notice\("(\w+)\"""", source))
    assert {a or b for a, b in used} == told


def _sources(room: str) -> list[Path]:
    return sorted((ROOT / "src" / "ostler" / room).rglob("*.py"))


def test_every_setting_is_documented() -> None:
    text = text_of("settings.md")
    told = rows(text, "| key | default | trust | meaning |")
    assert [named(row[0])[0] for row in told] == list(FILE_KEYS)
    assert column(text, "| key | default | the turn ends when |") == names_of(Limits)
    assert sorted(column(text, "| key | meaning |")) == sorted(names_of(Profile))
    assert column(text, "| key | fits |") == names_of(AskRule)
    assert column(text_of("mcp.md"), "| field | meaning |") == names_of(McpEntry)
    variables = rows(text, "| variable | sets |")
    settable = {name: ".".join(path) for name, path in VARIABLES.items() if path[0] in FILE_KEYS}
    assert {named(row[0])[0]: named(row[1])[0] for row in variables if row[1].startswith("`")} == settable
    assert {named(row[0])[0] for row in variables} == {*VARIABLES, "OSTLER_HOME", "OSTLER_DEBUG", "OSTLER_LOG"}


def test_which_settings_need_trust_is_documented() -> None:
    commented = re.sub(r"^#(?! )", "", template(), flags=re.M)
    values = tomllib.loads(commented)
    told = {named(row[0])[0]: row[2] for row in rows(text_of("settings.md"), "| key | default | trust | meaning |")}
    plain = {key: trust for key, trust in told.items() if trust in ("yes", "no")}
    assert set(told) - set(plain) == {"access", "limits", "asks", "walls", "read_secrets"}
    assert {key: bool(unsafe_keys({key: values[key]}, {})) for key in plain} == {
        key: trust == "yes" for key, trust in plain.items()
    }


def test_every_step_and_scenario_is_documented() -> None:
    text = text_of("testing.md")
    steps = {named(row[0])[0].split(" = ")[0] for row in rows(text, "| step | what it does |")}
    assert steps == STEPS
    scenarios = [named(row[0])[0].partition(":")[0] for row in rows(text, "| scenario | the model |")]
    assert sorted(scenarios) == sorted(SCENARIOS)
    assert [key for key in (REPLY_KEYS | SCENARIO_KEYS) - {"reply", "version"} if f"`{key}`" not in text] == []


def test_the_modules_that_the_architecture_names_are_there() -> None:
    prose = text_of("architecture.md").partition("<!-- modules")[0]
    named = re.findall(r"`((?!tests/)(?:[a-z]+/)+[a-z_]+)(?:\.[a-z]+)?`", prose)
    source = ROOT / "src" / "ostler"
    assert len(named) > 30
    assert [name for name in named if not (source / name).is_dir() and not (source / f"{name}.py").exists()] == []


def test_every_agent_is_documented() -> None:
    text = text_of("agents.md")
    told = {named(row[0])[0]: tuple(named(row[1])) for row in rows(text, "| name | models that mean it |")}
    others = {agent.name: tuple(name.replace("*", "…") for name in agent.other_models) for agent in AGENTS.values()}
    assert told == {agent.name: (*agent.models, *others[agent.name]) for agent in AGENTS.values()}
    assert [name for name in AGENTS if f"\n## {name}\n" not in text] == []


def test_options_of_python_are_documented() -> None:
    text = text_of("python.md")
    taken = [name for name in inspect.signature(Ostler.session).parameters if name != "self"]
    assert [name for row in rows(text, "| option of `session` | meaning |") for name in named(row[0])] == taken
    taken = ["prompt", "options", *get_type_hints(RunKeywords)]
    assert [name for row in rows(text, "| option of `run` | meaning |") for name in named(row[0])] == taken


def test_every_command_is_documented() -> None:
    text = text_of("cli.md")
    assert [name for name in cli.list_commands(click.Context(cli)) if f"ostler {name}" not in text] == []


# -- links ------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@by_name
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for link in re.findall(r"\]\(([^)]+)\)", FENCE.sub("", page.read_text())):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


def test_the_readme_leads_to_every_page() -> None:
    text = (ROOT / "README.md").read_text()
    assert [page.name for page in DOCS if f"(docs/{page.name})" not in text] == []


# -- commands ---------------------------------------------------------------------------------------


def command_lines(page: Path) -> Iterator[list[str]]:
    """The words after `ostler` of every command that a page shows."""
    text = page.read_text()
    shown = [line.removeprefix("$ ") for block in blocks(page, "console") for line in block.splitlines()]
    inline = re.findall(r"`((?:[A-Z_]+=\S+ )*ostler [^`]*)`", FENCE.sub("", text))
    for line in (*shown, *inline):
        if not re.match(r"(\w+=\S+ |\w+ .*\| )*ostler ", line) and "; ostler " not in line:
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";|<>&")
        lexer.commenters, lexer.whitespace_split = "#", True
        yield from _parts(list(lexer))


def _parts(tokens: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for token in [*tokens, ";"]:
        if not set(token) <= set(";|<>&"):
            part.append(token)
            continue
        while part and re.fullmatch(r"[A-Z_]+=.*", part[0]):
            part.pop(0)
        if part and part[0] == "ostler":
            yield part[1:]
        part = []


@by_name
def test_commands_are_known(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for args in command_lines(page):
        if not args or args[0] in ("…", "COMMAND") or args[0].startswith("--"):
            continue
        command = cli.get_command(click.Context(cli), args[0])
        assert command is not None, f"ostler {shlex.join(args)}"
        try:
            command.make_context(args[0], list(args[1:]), parent=click.Context(cli))
        except (click.MissingParameter, click.exceptions.Exit):
            pass  # `ostler show` in a sentence
        except click.UsageError as error:
            pytest.fail(f"ostler {shlex.join(args)}: {error.format_message()}")


# -- what is shown is what happens ------------------------------------------------------------------


@pytest.fixture
def stable(tmp_path: Path) -> dict[str, Any]:
    """A folder to work in, and an environment in which the scripted agent serves every name."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    env = {
        "HOME": str(tmp_path / "home"),
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "OSTLER_ONLY": "script",
        "OSTLER_SCRIPT_SPEED": "0",
        "LANG": "C.UTF-8",
    }
    return {"cwd": tmp_path / "project", "env": env}


def transcripts(page: Path) -> list[str]:
    return [block for block in blocks(page, "console") if block.startswith("$ ")]


@pytest.mark.parametrize("page", [p for p in PAGES if transcripts(p)], ids=lambda page: str(page.relative_to(ROOT)))
def test_transcripts_are_true(page: Path, stable: dict[str, Any]) -> None:
    """The commands of a page run in one shell; what each block shows must come, in that order."""
    dialogues = [dialogue(block) for block in transcripts(page)]
    script = "\n".join(line for commands, _ in dialogues for line in ("echo '== next'", *commands))
    quick = stable["cwd"].parent / "bin"
    stable["env"]["PATH"] = f"{quick}:{stable['env']['PATH']}"
    with ostler_on_path(quick):
        done = subprocess.run(
            ["bash", "-c", script],  # not on stdin: `ostler run` would take the rest of it
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            **stable,
        )
    answers = done.stdout.split("== next\n")[1:]
    for (_, shown), answer in zip(dialogues, answers, strict=True):
        _check_shown(shown, answer.splitlines())


def dialogue(block: str) -> tuple[list[str], list[str]]:
    """The commands of a block and what it shows of their answers; `> ` continues a here-document."""
    commands: list[str] = []
    shown: list[str] = []
    inside = False
    for line in block.splitlines():
        if line.startswith("$ ") or inside:
            commands.append(line[2:])
            inside = commands[-1].endswith("<<'END'") or (inside and commands[-1] != "END")
        else:
            shown.append(line)
    return commands, shown


def _check_shown(shown: list[str], came: list[str]) -> None:
    rest = iter(came)
    for line in shown:
        pattern = _pattern(line)
        assert any(pattern.fullmatch(_plain(other)) for other in rest), f"{line!r} is not in\n" + "\n".join(came)
    patterns = [_pattern(line) for line in shown]
    errors = [line for line in came if line.startswith(("ostler: ", "bash: "))]
    assert [line for line in errors if not any(pattern.fullmatch(_plain(line)) for pattern in patterns)] == []


def _pattern(line: str) -> re.Pattern[str]:
    """`…` stands for anything; of numbers and blanks only the presence counts."""
    return re.compile(".*".join(re.escape(_plain(part)) for part in line.split("…")))


def _plain(line: str) -> str:
    return re.sub(r"\d+(\.\d+)?", "0", re.sub(r"\s+", " ", line.strip().replace("…", "")))


@by_name
def test_python_compiles(page: Path) -> None:
    for block in blocks(page, "python"):
        compile(block, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for block in blocks(page, "toml"):
        tomllib.loads(block)


PLAY = """
import ast, asyncio, inspect, sys
import ostler
names = {"__name__": "page", "ostler": ostler}
for block in sys.stdin.read().split("\\0"):
    code = compile(block, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, names))
    else:
        exec(code, names)
"""


@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p, "python")], ids=lambda page: str(page.relative_to(ROOT))
)
def test_python_runs(page: Path, stable: dict[str, Any]) -> None:
    """All snippets of a page, in order, as one program."""
    (stable["cwd"] / "my" / "project").mkdir(parents=True)
    source = "\0".join(blocks(page, "python"))
    done = subprocess.run(
        [sys.executable, "-c", PLAY], check=False, input=source, capture_output=True, text=True, timeout=100, **stable
    )
    assert (done.returncode, done.stderr) == (0, "")
    for comment in re.findall(r"^ *print\(.*?\)  # (.+?)(?::.*)?$", source, re.M):
        assert comment in done.stdout


def test_the_example_of_a_test_is_a_test(stable: dict[str, Any]) -> None:
    source = next(block for block in blocks(ROOT / "docs" / "testing.md", "python") if "def test_" in block)
    source = source.replace('"PATH": "/usr/bin"', '"PATH": ' + repr(stable["env"]["PATH"]))
    (stable["cwd"] / "test_page.py").write_text(textwrap.dedent(source))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py"],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
        **stable,
    )
    assert "1 passed" in done.stdout, done.stdout


# -- what the repository does not say ---------------------------------------------------------------


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    return [ROOT / name for name in listed.stdout.split("\0") if name]


@needs("git")
def test_no_registries_and_no_paths_of_one_machine() -> None:
    files = tracked()
    assert files
    forbidden = re.compile(
        r"registry\.npm[j]s\.org|[p]ypi\.org|python[h]osted\.org|/wor[k]/(?:main|shared)\b|(?<!self)/roo[t]/(?!etc)"
    )
    found = []
    for path in files:
        if not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in forbidden.finditer(text)]
    assert found == []
