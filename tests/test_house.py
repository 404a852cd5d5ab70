"""The house rules that a machine can check: import direction, purity, nothing through a shell.

`acp` is ostler as an ACP agent: it drives sessions for a client as `server` does, so it stands beside it, above
`work`. The client side of ACP is a dialog like others, pure, and lives in `agents`.
"""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "ostler"
FILES = sorted(SRC.rglob("*.py"))

GROUND = {"words", "errors", "settings"}
MAY_IMPORT = {
    "errors": set(),
    "words": {"errors"},
    "settings": {"words", "errors"},
    "agents": {"words", "errors"},
    "process": {"words", "errors"},
    "store": {"words", "errors"},
    "terminal": {"words", "errors", "process", "store"},
    "work": GROUND | {"agents", "process", "store", "terminal"},
    "acp": GROUND | {"agents", "process", "store", "terminal", "work"},
    "server": GROUND | {"agents", "process", "store", "terminal", "work"},
    "cli": GROUND | {"agents", "process", "store", "terminal", "work", "acp", "server", "testing"},
    "testing": GROUND | {"agents", "process", "store", "terminal", "work"},
    "": GROUND | {"work", "cli"},
}


def room(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return "" if parts in (("__init__",), ("__main__",)) else parts[0]


def imports(path: Path) -> list[tuple[str, int]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            if node.module == "ostler":
                found += [(f"ostler.{alias.name}", node.lineno) for alias in node.names]
            found.append((node.module, node.lineno))
    return found


def rooms_imported(path: Path) -> set[str]:
    names = {name.split(".")[1] for name, _ in imports(path) if name.startswith("ostler.")}
    return (names & set(MAY_IMPORT)) - {room(path), "__version__"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_one_way(path: Path) -> None:
    assert rooms_imported(path) <= MAY_IMPORT[room(path)]


@pytest.mark.parametrize("path", sorted((SRC / "agents").glob("*.py")), ids=lambda p: p.name)
def test_adapters_cannot_do_io(path: Path) -> None:
    forbidden = {"os", "asyncio", "subprocess", "pathlib", "socket", "time", "shutil", "threading", "tempfile"}
    assert {name.split(".")[0] for name, _ in imports(path)} & forbidden == set()
    calls = {
        n.func.id
        for n in ast.walk(ast.parse(path.read_text()))
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    assert calls & {"open", "print", "input", "eval", "exec"} == set()


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_nothing_goes_through_a_shell(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("create_subprocess_shell", "getoutput", "getstatusoutput"), f"line {node.lineno}"
            of_os = isinstance(node.value, ast.Name) and node.value.id == "os"
            assert not (of_os and node.attr in ("system", "popen")), f"line {node.lineno}"
        if isinstance(node, ast.keyword) and node.arg == "shell":
            assert isinstance(node.value, ast.Constant) and not node.value.value, f"line {node.lineno}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_only_the_edges_read_the_environment(path: Path) -> None:
    if room(path) in ("cli", "testing", ""):
        return
    reads = [
        n.lineno
        for n in ast.walk(ast.parse(path.read_text()))
        if isinstance(n, ast.Attribute) and n.attr == "environ" and isinstance(n.value, ast.Name) and n.value.id == "os"
    ]
    # The warden is a program of its own; it hands nothing of its environment on.
    assert reads == [] or path.name == "warden.py"


def test_the_rules_would_notice(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import ostler.work\nfrom ostler import cli\n")
    assert [name for name, _ in imports(bad)] == ["ostler.work", "ostler.cli", "ostler"]
