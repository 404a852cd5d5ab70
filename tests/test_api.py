"""The package as Python programs meet it: exports, types, one blocking call."""

import ast
import asyncio
import importlib
import subprocess
import sys
import threading
import typing
from pathlib import Path

import pytest

import ostler
from ostler import model
from ostler.testing import ScriptedAgent
from ostler.work.other_loop import run_in_thread

ROOT = Path(__file__).parent.parent


def is_noun(name: str, value: object) -> bool:
    if name.startswith("_") or name.isupper():
        return False
    return (str(getattr(value, "__module__", "")).startswith("ostler.model.") and isinstance(value, type)) or bool(
        typing.get_origin(value)
    )


def test_every_noun_is_exported() -> None:
    nouns = {name for name, value in vars(model).items() if is_noun(name, value)}
    verbs = {"LiveSession", "Ostler", "OstlerError", "Settings", "Terminal", "TurnHandle", "open", "run"}
    assert set(ostler.__all__) == nouns | verbs | {"Access", "ErrorKind", "__version__"}


def test_what_is_exported_is_there_and_typed() -> None:
    tree = ast.parse(Path(ostler.__file__).read_text())
    typed = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "typing" and node.col_offset <= 4
        for alias in node.names
    }
    for name in set(ostler.__all__) - {"__version__", "open", "run"}:
        assert getattr(ostler, name) is getattr(importlib.import_module(str(typed[name])), name), name
    with pytest.raises(AttributeError, match="module 'ostler' has no attribute 'Horse'"):
        ostler.Horse  # type: ignore[attr-defined]  # noqa: B018


def test_the_import_is_lazy() -> None:
    code = "import sys, ostler; print([name for name in sys.modules if name.startswith('ostler.')])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert said.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["ostler.work", "ostler.server.logs", "ostler.store.commits", "ostler.process.link"])
def test_nothing_is_logged_where_nobody_asked_for_it(module: str) -> None:
    code = f"import logging, {module}; logging.getLogger('{module}').error('trouble')"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert said.stderr == ""


PROGRAM = """\
import ostler


async def main() -> None:
    async with ostler.open() as o:
        session = await o.session("claude", access="write")
        envelope: ostler.Envelope = await session.run("go", tools_denied=["web"], limits=ostler.Limits(total=5))
        async for event in session.run("go", transport="dialog", attachments=["a.txt"]):
            print(event.seq)
        handle: ostler.TurnHandle = o.exec(["true"])
        print(envelope.text, (await handle).exit, await (await session.terminal()).wait())
    print(ostler.run("go", "claude", folder="/w", schema={"type": "object"}, access="read").structured)
"""
WRONG = {
    'session.run("go", tools_denyed=["web"])': 'Unexpected keyword argument "tools_denyed"',
    'session.run("go", access="wirte")': "has incompatible type \"Literal['wirte']\"",
    'session.run("go", limits=5)': 'has incompatible type "int"',
    'session.run("go", transport="pipes")': "has incompatible type \"Literal['pipes']\"",
    'ostler.run("go", flder="/w")': 'Unexpected keyword argument "flder"',
    'ostler.run("go", resume_last="yes")': 'has incompatible type "str"',
    "ostler.Horse": 'Module has no attribute "Horse"',
    "ostler.testing.Horse": 'Module has no attribute "Horse"',
    "session.run('go').envelop": '"TurnHandle" has no attribute "envelop"',
}


def test_a_type_checker_knows_every_keyword(tmp_path: Path) -> None:
    head = ["import ostler", "import ostler.testing", "", "def use(session: ostler.LiveSession) -> None:"]
    lines = [*head, *(f"    {line}" for line in WRONG)]
    (tmp_path / "right.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text("\n".join(lines) + "\n")
    argv = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    said = subprocess.run(
        [*argv, str(tmp_path / "right.py"), str(tmp_path / "wrong.py")],
        cwd=ROOT,  # where `make check` has left what it found of the rest
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in said.stdout.splitlines() if ": error: " in line]
    places = [["wrong.py", str(number)] for number, _ in enumerate(WRONG, len(head) + 1)]
    # What mypy remembers of the same file in an earlier run has that one's folder.
    found = [line.split(":")[:2] for line in errors]
    assert [[Path(name).name, number] for name, number in found] == places, said.stdout
    for line, expected in zip(errors, WRONG.values(), strict=True):
        assert expected in line


def test_one_call(scripted_agent: ScriptedAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings_of(scripted_agent, tmp_path, monkeypatch)
    envelope = ostler.run("[[say:hello]]", "claude", folder=str(tmp_path), access="write", tools_denied=["web"])
    assert (envelope.ok, envelope.text, envelope.access, envelope.folder) == (True, "hello", "write", str(tmp_path))


async def test_an_argument_of_a_wrong_type_is_refused_and_never_stored(
    scripted_agent: ScriptedAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session whose model is a number was stored once, and no list of sessions could be read again."""
    settings_of(scripted_agent, tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    async with ostler.open() as o:
        for wrong in ({"model": 5}, {"access": "rite"}, {"transport": "pigeon"}, {"name": 7}, {"folder": 5}):
            with pytest.raises(ostler.OstlerError) as raised:
                await o.session("script", **wrong)  # type: ignore[arg-type]
            assert raised.value.kind == "bad_request", wrong
        session = await o.session("script")
        for prompt, given in ((None, {}), ("hi", {"model": 5}), ("hi", {"limits": 5}), ("hi", {"wait_for": "ever"})):
            with pytest.raises(ostler.OstlerError) as raised:
                await session.run(prompt, **given)  # type: ignore[arg-type]
            assert raised.value.kind == "bad_request", given
        for argv, given in (("echo hi", {}), (["true"], {"access": "rite"}), (["true"], {"env": {"A": 1}})):
            with pytest.raises(ostler.OstlerError) as raised:
                await o.exec(argv, **given)  # type: ignore[arg-type]
            assert raised.value.kind == "bad_request", argv
        assert o.sessions() == []


async def test_one_call_where_a_loop_runs_already(
    scripted_agent: ScriptedAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_of(scripted_agent, tmp_path, monkeypatch)
    envelope = ostler.run("[[say:hello]]", "claude", folder=str(tmp_path))
    assert (envelope.ok, envelope.text) == (True, "hello")
    with pytest.raises(ostler.OstlerError, match="the prompt is empty"):
        ostler.run(" ", "claude", folder=str(tmp_path))


def settings_of(scripted_agent: ScriptedAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in scripted_agent.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "state"))


async def test_an_interrupt_cancels_what_runs_in_the_other_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # it is waited for
            ended.set()

    def interrupted(self: object, timeout: float | None = None) -> None:
        begun.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_in_thread(work())
    assert ended.is_set()
