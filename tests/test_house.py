"""The house rules that a machine can check: import direction, purity, one clock, nothing through a shell, a test file
for each module that is pure, a reason for each error that is ignored, and loops that go on whatever happens.

`acp` is ostler as an ACP agent: it drives sessions for a client as `server` does, so it stands beside it, above
`work`. The client side of ACP is a dialog like others, pure, and lives in `agents`.
"""

import ast
import gc
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard, get_args

import pytest

from ostler.agents import AGENTS
from ostler.model import TransportName

SRC = Path(__file__).parent.parent / "src" / "ostler"
TESTS = Path(__file__).parent
FILES = sorted(SRC.rglob("*.py"))

GROUND = {"access", "clock", "model", "errors", "settings", "signed_tokens", "supervise"}
MAY_IMPORT = {
    "access": set(),
    "clock": set(),
    "errors": set(),
    "late": set(),
    "signed_tokens": set(),
    "supervise": {"clock", "errors"},
    "model": {"access", "errors"},
    "settings": {"access", "model", "errors"},
    "agents": {"access", "model", "errors"},
    "process": {"access", "clock", "model", "errors", "supervise"},
    "store": {"access", "clock", "model", "errors", "signed_tokens"},
    "terminal": {"access", "clock", "model", "errors", "process", "store"},
    "logs": {"errors", "store", "terminal"},
    "render": GROUND | {"agents", "terminal"},
    "work": GROUND | {"agents", "process", "store", "terminal", "render"},
    "machines": GROUND | {"store"},
    "pipelines": GROUND | {"machines", "store", "work"},
    "acp": GROUND | {"agents", "process", "store", "terminal", "render", "work"},
    "mcp": GROUND | {"process", "store", "work"},
    "export": GROUND | {"pipelines"},
    "server": GROUND | {"agents", "machines", "process", "store", "terminal", "logs", "render", "work", "pipelines"},
    "cli": GROUND
    | {
        "agents",
        "process",
        "store",
        "terminal",
        "logs",
        "render",
        "work",
        "acp",
        "export",
        "mcp",
        "machines",
        "server",
        "testing",
        "pipelines",
    },
    "testing": GROUND | {"agents", "process", "store", "terminal", "render", "work"},
    "": GROUND | {"late", "work", "cli"},
}
NO_IO = {"os", "asyncio", "subprocess", "pathlib", "socket", "time", "shutil", "threading", "tempfile"}
# What else makes a module more than values in and values out.
NOT_PURE = NO_IO | {"sqlite3", "click"}
# Pure by their imports, but nothing without what stands behind them: the emulator, a whole Ostler, a server.
TESTED_WITH = {
    **dict.fromkeys(("ghostty", "ghostty_look", "ghostty_modes"), "terminal/test_screen_emulator.py"),
    "call_shown": "work/dialogs/test_call_terminals.py",
    "local": "work/terminals/test_terminal.py",
    "local_server": "cli/test_run_on.py",
    "nothing": "cli/test_run.py",
    "control": "work/test_owner.py",
    "delivery": "work/transports/test_pty.py",
    "looks": "cli/test_tmux.py",
    "__main__": "cli/test_start.py",
}
# What of `work` imports each other all the same, since one side does so only when a function is called.
LATE_CYCLES = {
    # A session that ends its work begins another one, and keeps processes warm for those to come.
    frozenset({"sessions.hand", "sessions.live_session", "sessions.open_session", "sessions.warm", "turns.begin"}),
    frozenset({"checkup", "ostler"}),  # the doctor runs a turn, and an `Ostler` has a doctor
    frozenset({"launchers", "own_sandbox", "probe", "walls"}),  # a report on an agent says what keeps it to its access
    frozenset({"owner_requests", "terminals.requests"}),  # most processes are never asked about a terminal
    frozenset({"panes.open_panes", "panes.pane_output"}),  # in most panes an agent shows its own screen
    frozenset({"shadows", "turns.artifacts"}),  # hardly any turn has lent a login
}
# What libraries call of the classes that ostler gives them.
CALLED_BY_OTHERS = {
    *("list_commands", "format_commands", "get_completions_async"),  # click, prompt_toolkit
    *("create_module", "handleError", "capture_signals", "collect"),  # importlib, logging, uvicorn, prometheus
    *("serialize", "deserialize", "generate_span_id", "generate_trace_id", "render_number"),  # DBOS, OTel, rich
}
LOOKED_AT_BY_TESTS = {"stdin_fd", "under_way"}
TAKEN_BY_THE_PAGE = {f"{of}_NAMES" for of in ("OLD_TEXT", "NEW_TEXT", "CONTENT", "PATCH")}  # tools/page_types.py
# Programs of their own, which import nothing of ostler.
OWN_TIME = {"clock.py", "terminal/screen/process.py"} | {
    f"process/{name}.py" for name in ("warden", "pane_warden", "job_host")
}


def room(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return "" if parts in (("__init__",), ("__main__",)) else parts[0]


@pytest.fixture(scope="module", autouse=True)
def no_collections() -> Iterator[None]:
    """Half a million nodes are no garbage, and looking at them again and again takes longer than parsing."""
    gc.disable()
    yield
    nodes.cache_clear()
    gc.enable()


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def imports(path: Path) -> list[tuple[str, int]]:
    found = []
    for node in nodes(path):
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


def of_module(node: ast.AST, module: str) -> str:
    """`attr` where the node is `module.attr`, else ''."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == module:
        return node.attr
    return ""


def is_pure(path: Path) -> bool:
    """Whether it only takes values and returns values, and does something with them: it needs a test of its own."""
    if path.stem == "__init__" or path.stem.startswith("routes_"):
        return False
    behaves = any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes(path))
    return behaves and not {name.split(".")[0] for name, _ in imports(path)} & NOT_PURE


def its_test(path: Path) -> Path:
    """`work/turns/envelope.py` is tested by `tests/work/turns/test_envelope.py`."""
    if path.stem in TESTED_WITH:
        return TESTS / TESTED_WITH[path.stem]
    return TESTS / path.relative_to(SRC).parent / f"test_{path.name}"


def through_a_shell(node: ast.AST) -> bool:
    if isinstance(node, ast.keyword) and node.arg == "shell":
        return not (isinstance(node.value, ast.Constant) and not node.value.value)
    names = ("create_subprocess_shell", "getoutput", "getstatusoutput")
    return of_module(node, "os") in ("system", "popen") or (isinstance(node, ast.Attribute) and node.attr in names)


def test_imports_point_one_way() -> None:
    wrong = {path: rooms_imported(path) - MAY_IMPORT[room(path)] for path in FILES}
    assert {str(path): rooms for path, rooms in wrong.items() if rooms} == {}


def test_no_modules_of_work_import_each_other_in_a_circle() -> None:
    """Each can be read once those that it imports are known; imports for types count, too."""
    paths = [path for path in FILES if room(path) == "work" and path.stem != "__init__"]
    modules = {".".join(("ostler", *path.relative_to(SRC).with_suffix("").parts)): path for path in paths}
    assert cycles(import_graph(modules)) == set()
    late = cycles(import_graph(modules, late=True))
    assert {frozenset(name.removeprefix("ostler.work.") for name in cycle) for cycle in late} == LATE_CYCLES


def import_graph(modules: dict[str, Path], late: bool = False) -> dict[str, set[str]]:
    """Which of these modules each of them imports; those that its functions do when they are called, only if `late`."""
    graph = {}
    for module, path in modules.items():
        seen = nodes(path) if late else outside_functions(path)
        graph[module] = {name for node in seen for name in names_imported(node)} & modules.keys()
    return graph


def outside_functions(path: Path) -> list[ast.AST]:
    found = [nodes(path)[0]]
    for node in found:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found += ast.iter_child_nodes(node)
    return found


def names_imported(node: ast.AST) -> list[str]:
    """Each module that it may import: what `from a import b` takes may be one as well."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def cycles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The groups of modules of which each leads to each other."""
    leads_to = {module: everything_below(module, graph) for module in graph}
    return {
        frozenset(other for other in leads_to[module] if module in leads_to[other])
        for module in graph
        if module in leads_to[module]
    }


def everything_below(module: str, graph: dict[str, set[str]]) -> set[str]:
    below: set[str] = set()
    new = graph[module]
    while new:
        below |= new
        new = {name for each in new for name in graph[each]} - below
    return below


def test_what_works_for_an_ostler_does_not_know_it() -> None:
    """The `Ostler` hands in what is needed: nothing that it is made of takes it whole, not even for a type."""
    outside = {SRC / "work" / "__init__.py", SRC / "work" / "checkup.py"}
    within = [path for path in FILES if room(path) == "work" and path not in outside]
    names = {"ostler.work.ostler", "ostler.work.Ostler"}
    whole = [path for path in within if names & {name for name, _ in imports(path)} or imports_work(path)]
    assert [str(path.relative_to(SRC)) for path in whole] == []


def imports_work(path: Path) -> bool:
    """`from ostler.work import Ostler`, which loads everything."""
    froms = [node for node in nodes(path) if isinstance(node, ast.ImportFrom) and node.module == "ostler.work"]
    return any(alias.name in ("Ostler", "LiveSession") for node in froms for alias in node.names)


def test_adapters_cannot_do_io() -> None:
    for path in sorted((SRC / "agents").rglob("*.py")):
        assert {name.split(".")[0] for name, _ in imports(path)} & NO_IO == set(), path
        calls = {n.func.id for n in nodes(path) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        assert calls & {"open", "print", "input", "eval", "exec"} == set(), path


def test_nothing_goes_through_a_shell() -> None:
    assert [f"{path}:{node.lineno}" for path in FILES for node in nodes(path) if through_a_shell(node)] == []


def test_only_the_edges_read_the_environment() -> None:
    # Programs of their own: the warden hands nothing of its environment on, the host of jobs all that it was given.
    programs = ("warden.py", "job_host.py")
    inner = [path for path in FILES if room(path) not in ("cli", "testing", "") and path.name not in programs]
    assert [f"{path}:{n.lineno}" for path in inner for n in nodes(path) if of_module(n, "os") == "environ"] == []


def test_one_clock_for_all() -> None:
    ours = [path for path in FILES if str(path.relative_to(SRC)) not in OWN_TIME and room(path) != "testing"]
    reads = [(path, n) for path in ours for n in nodes(path) if of_module(n, "time") in ("time", "monotonic")]
    assert [f"{path}:{node.lineno}: ostler.clock tells the time" for path, node in reads] == []


def test_terminals_are_handed_what_they_need_and_not_the_whole_ostler() -> None:
    rooms = [*(SRC / "terminal").rglob("*.py"), *(SRC / "work" / "terminals").glob("*.py"), SRC / "work" / "owner.py"]
    assert [path for path in rooms for name, _ in imports(path) if name.startswith("ostler.work.ostler")] == []


def test_every_pure_module_has_its_test_file() -> None:
    pure = [path for path in FILES if room(path) != "testing" and is_pure(path)]
    missing = [f"{path.relative_to(SRC)}: {its_test(path)}" for path in pure if not its_test(path).exists()]
    assert missing == []
    assert {path.stem for path in pure} >= TESTED_WITH.keys()


def has_comment(lines: list[str], first: int, last: int) -> bool:
    """Whether a comment stands in one of these lines (counted from 1), or in the one above them."""
    above = lines[first - 2].strip() if first > 1 else ""
    return above.startswith("#") or any("  # " in line for line in lines[first - 1 : last])


def ignored_without_reason(path: Path) -> list[int]:
    """Lines that ignore an error and do not say why: `suppress(…)`, and handlers that do nothing but go on."""
    lines = path.read_text().splitlines()
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Call) and called(node) == "suppress":
            found += [node.lineno] if not has_comment(lines, node.lineno, node.lineno) else []
        elif isinstance(node, ast.ExceptHandler) and all(isinstance(n, ast.Pass | ast.Continue) for n in node.body):
            found += [node.lineno] if not has_comment(lines, node.lineno, node.body[-1].lineno) else []
    return found


def called(call: ast.Call) -> str:
    """The last word of what is called."""
    return getattr(call.func, "attr", None) or getattr(call.func, "id", "")


def loops_for_ever(path: Path) -> list[str]:
    """Functions that poll without an end, or set their own timer again."""
    functions = [node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [function.name for function in functions if any(map(polls, ast.walk(function))) or rearms(function)]


def polls(node: ast.AST) -> bool:
    endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant)
    return endless and any(of_module(each, "asyncio") == "sleep" for each in ast.walk(node))


def rearms(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    timers = [n for n in ast.walk(function) if isinstance(n, ast.Call) and called(n) == "call_later"]
    return any(ast.unparse(argument) == f"self.{function.name}" for timer in timers for argument in timer.args)


def test_what_is_ignored_says_why() -> None:
    assert [f"{path}:{line}" for path in FILES for line in ignored_without_reason(path)] == []


def test_each_module_has_one_logger_by_its_own_name() -> None:
    for path in FILES:
        made = [line for line in path.read_text().splitlines() if line.startswith(("log = ", "_log = ", "logger = "))]
        assert made in ([], ["_log = logging.getLogger(__name__)"]), path
    own = [path for path in FILES if str(path.relative_to(SRC)) in OWN_TIME]
    assert [path for path in own if "logging" in dict(imports(path))] == []  # they import next to nothing


def test_what_goes_on_for_ever_is_supervised() -> None:
    """A loop in the background logs, backs off and goes on: `supervise.Loop`. These are none, and cannot fail so."""
    ours = [path for path in FILES if room(path) not in ("testing", "supervise")]
    assert {f"{path.relative_to(SRC)}: {name}" for path in ours for name in loops_for_ever(path)} == {
        "cli/editor.py: _frame",  # draws, and ends with its view
        "render/region.py: _frame",
        "process/pty.py: _go_on",  # gives up after a time
        "terminal/screen/link.py: _check",  # kills what hangs, and can do no more
        "process/lines.py: chunks",
        "server/live.py: rows",  # generators: whoever reads them hears what is raised
        "work/terminals/terminals.py: _last_state",  # has a deadline
    }


def test_no_class_or_type_of_one_name_is_defined_twice() -> None:
    """A reader who sees one file, or greps one name, knows which class or type is meant."""
    homes: dict[str, list[str]] = {}
    for path in FILES:
        for name in [node.name for node in nodes(path) if isinstance(node, ast.ClassDef)] + type_aliases(path):
            homes.setdefault(name, []).append(str(path.relative_to(SRC)))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def type_aliases(path: Path) -> list[str]:
    """Names of types: `Status = Literal[…]`, `Id = int | str`, `Who = NewType(…)`, `Where: TypeAlias = …`."""
    module = nodes(path)[0]
    assert isinstance(module, ast.Module)
    return [name for node in module.body if (name := alias_in(node))]


def alias_in(node: ast.stmt) -> str:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id if ast.unparse(node.annotation).endswith("TypeAlias") else ""
    if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
        return ""
    name, value = node.targets[0].id, node.value
    new_type = isinstance(value, ast.Call) and called(value) == "NewType"
    is_type = new_type or isinstance(value, ast.Subscript | ast.BinOp)
    return name if is_type and re.fullmatch(r"_?[A-Z]+[a-z]\w*", name) else ""


def test_nothing_is_called_told_or_heard() -> None:
    """It could be an event, a reply, a callback: a name says which."""
    ours = [path for path in FILES if room(path) != "testing"]
    assert [f"{path.relative_to(SRC)}: {name}" for path in ours for name in names_given(path) & {"told", "heard"}] == []


def names_given(path: Path) -> set[str]:
    """Of variables, parameters, fields and functions."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    stored = [each for each in nodes(path) if isinstance(getattr(each, "ctx", None), ast.Store)]
    names = [getattr(each, "id", None) or getattr(each, "attr", "") for each in stored]
    names += [each.arg for each in nodes(path) if isinstance(each, ast.arg)]
    return {name.lstrip("_") for name in names} | {each.name for each in nodes(path) if isinstance(each, functions)}


def test_nothing_is_there_that_nothing_uses() -> None:
    """Functions, methods and constants that the package, its tools, its docs and its examples never name again."""
    others = [path for room in ("docs", "tools", "examples") for path in (TESTS.parent / room).rglob("*.[pm][yd]")]
    words = Counter(word for path in (*FILES, *others) for word in re.findall(r"\w+", path.read_text()))
    defined = Counter(name for path in FILES for name in names_defined(path))
    checked = {name for path in FILES if room(path) != "testing" for name in names_defined(path)}
    found = {name for name in checked if words[name] <= defined[name] and not name.startswith("__")}
    assert found == CALLED_BY_OTHERS | LOOKED_AT_BY_TESTS | TAKEN_BY_THE_PAGE


def names_defined(path: Path) -> Iterator[str]:
    """But for what a decorator takes, such as a command or a route."""
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not any(isinstance(each, ast.Call) for each in node.decorator_list):
                yield node.name
        elif isinstance(node, ast.Assign) and node.col_offset == 0:
            yield from (each.id for each in node.targets if isinstance(each, ast.Name))


def test_the_values_of_a_type_are_listed_once() -> None:
    """Who needs them takes them out of the type: `get_args`."""
    lists: dict[frozenset[str], dict[str, None]] = {}
    for path in FILES:
        typed = {node.value for node in nodes(path) if isinstance(node, ast.AnnAssign)}  # mypy knows their values
        for node in nodes(path):
            if (values := strings_listed(node)) and node not in typed:
                lists.setdefault(values, {})[str(path.relative_to(SRC))] = None
    types = {strings_listed(node.slice) for path in FILES for node in nodes(path) if is_literal(node)}
    found = [[*lists[values]] for values in types if values and len(lists[values]) > 1]
    # The scripted agent must start fast, and imports no types: `test_access.py` compares them.
    assert found == [["access.py", "testing/scenario.py"]]


def is_literal(node: ast.AST) -> TypeGuard[ast.Subscript]:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal"


def strings_listed(node: ast.AST) -> frozenset[str]:
    """What a list of three strings or more consists of."""
    listed = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
    strings = [each.value for each in listed if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return frozenset(strings) if len(strings) == len(listed) >= 3 else frozenset()


def test_the_rules_would_notice(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import ostler.work\nfrom ostler import cli\nos.system(x)\nrun(x, shell=True)\ntime.time()\n")
    assert [name for name, _ in imports(bad)] == ["ostler.work", "ostler.cli", "ostler"]
    assert sorted(node.lineno for node in nodes(bad) if through_a_shell(node)) == [3, 4]
    assert [node.lineno for node in nodes(bad) if of_module(node, "time") == "time"] == [5]
    assert not is_pure(bad)
    silent = tmp_path / "silent.py"
    silent.write_text(
        "with suppress(OSError):\n    x()\nwith suppress(OSError):  # why\n    x()\n"
        "# why\nwith suppress(OSError):\n    x()\n"
        "try:\n    x()\nexcept OSError:\n    pass\ntry:\n    x()\nexcept OSError:\n    pass  # why\n"
    )
    assert sorted(ignored_without_reason(silent)) == [1, 10]
    endless = tmp_path / "endless.py"
    endless.write_text(
        "async def a():\n    while True:\n        await asyncio.sleep(1)\n"
        "async def b():\n    while x:\n        await asyncio.sleep(1)\n"
        "def c(self):\n    loop.call_later(1, self.c)\ndef d(self):\n    loop.call_later(1, self.c)\n"
    )
    assert loops_for_ever(endless) == ["a", "c"]
    asks = tmp_path / "asks.py"
    asks.write_text(
        "turn.transport == 'pty'\ntransport not in ('dialog', 'tmux')\nserver.transport == 'stdio'\n"
        "options['transport'] in ('pty',)\n"
    )
    assert sorted(node.lineno for node in nodes(asks) if names_transport(node)) == [1, 2, 4]
    circle = {
        "a": "if TYPE_CHECKING:\n    from room import b\n",
        "b": "import room.c\n",
        "c": "from room.a import x\n",
        "d": "import room.a\ndef f():\n    import room.e\n",
        "e": "from room.d import f\n",
    }
    modules = {f"room.{name}": tmp_path / f"{name}.py" for name in circle}
    for name, text in circle.items():
        modules[f"room.{name}"].write_text(text)
    assert cycles(import_graph(modules)) == {frozenset({"room.a", "room.b", "room.c"})}
    assert cycles(import_graph(modules, late=True)) == {
        frozenset({"room.a", "room.b", "room.c"}),
        frozenset({"room.d", "room.e"}),
    }
    listed = tmp_path / "listed.py"
    listed.write_text("K = Literal['a', 'b', 'c']\nif k in ('c', 'b', 'a'): ...\nx = ('a', 'b')\n")
    assert [node.lineno for node in nodes(listed) if strings_listed(node) == {"a", "b", "c"}] == [1, 2]  # type: ignore[attr-defined]
    assert [strings_listed(node.slice) for node in nodes(listed) if is_literal(node)] == [{"a", "b", "c"}]
    types = tmp_path / "types.py"
    types.write_text(
        "A1 = 1 + 2\nTABLE = x[1]\nState = Literal['a']\nId = int | str\n_Who = NewType('_Who', str)\n"
        "Where: TypeAlias = str\nT = TypeVar('T')\nlast = x[1]\nclass Status: ...\n"
    )
    assert type_aliases(types) == ["State", "Id", "_Who", "Where"]
    for number, (text, is_one) in enumerate(
        [("x = 1\n", False), ("def f(): ...\n", True), ("import os.path\ndef f(): ...\n", False)]
    ):
        pure = tmp_path / f"pure_{number}.py"
        pure.write_text(text)
        assert is_pure(pure) is is_one
    assert its_test(SRC / "work" / "turns" / "envelope.py") == TESTS / "work" / "turns" / "test_envelope.py"
    assert its_test(SRC / "errors.py") == TESTS / "test_errors.py"


def test_a_transport_is_asked_for_its_facts_and_not_for_its_name() -> None:
    """What is true of one stands in `work/transports/facts.py`: a new one is a file, and its facts."""
    ours = [path for path in FILES if room(path) != "agents"]  # an adapter knows what its own CLI does in each
    found = {f"{path.relative_to(SRC)}: {ast.unparse(n)}" for path in ours for n in nodes(path) if names_transport(n)}
    assert found == {
        "work/transports/choose.py: transport != 'tmux'",  # the setting tmux_shows is of no other
        "work/sessions/live_session.py: turn.transport == 'pty'",  # the screens that `open_tui` has opened
    }


def names_transport(node: ast.AST) -> bool:
    """Whether it compares `transport`, `….transport` or `…["transport"]` with the name of one, or with some of them."""
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    words = {each.value for side in sides for each in ast.walk(side) if isinstance(each, ast.Constant)}
    keys = [
        side.slice.value for side in sides if isinstance(side, ast.Subscript) and isinstance(side.slice, ast.Constant)
    ]
    asked = [*keys, *(getattr(side, "attr", None) or getattr(side, "id", None) for side in sides)]
    return "transport" in asked and bool(words & {*get_args(TransportName), "terminal", "nothing"})


def test_what_belongs_to_an_agent_stands_in_its_adapter() -> None:
    """No name of an agent, and none of its variables, decides anything outside of `agents`."""
    names = {*AGENTS} - {"cursor"}  # a terminal has one, too
    own = re.compile(rf"({'|'.join(name.upper() for name in names - {'script'})})_?[A-Z]+")
    found = [
        f"{path.relative_to(SRC)}:{node.lineno}: {node.value}"
        for path in FILES
        if room(path) not in ("agents", "testing")
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value in names or own.fullmatch(node.value)
    ]
    assert found == []
    page = [path for path in (TESTS.parent / "web" / "src").rglob("*") if path.suffix in (".ts", ".svelte", ".css")]
    quoted = re.compile(rf"""["'](?:{"|".join(names)})["']|\.(?:{"|".join(names)}) {{""")
    assert len(page) > 50
    assert [(path.name, found[0]) for path in page if (found := quoted.findall(path.read_text()))] == []
