"""A tenth of the start of a command went into modules that others import and that it hardly ever uses.

They are loaded when something of them is first used. Only the command does this, never `import ostler`.
"""

import posix
import sys
from _thread import RLock  # of threading, which is large
from importlib.machinery import ModuleSpec, PathFinder
from types import FunctionType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LATE = (
    *("textwrap", "tokenize"),  # by logging, for tracebacks
    *("ssl", "asyncio.sslproto"),  # by asyncio, with OpenSSL
    "ipaddress",  # by urllib.parse
    *("msgspec.inspect", "msgspec.msgpack", "msgspec.toml", "msgspec.yaml"),  # by msgspec
    *("uvicorn", "logging.config", "configparser"),  # of uvicorn the server needs some modules, and no set-up of logs
    *("tempfile", "shutil", "random", "json", "tomllib", "gzip"),  # by uvicorn and by us, for what is rare
    *("inspect", "platform"),  # by click, asyncio and uuid, for what STAND_INS has
)

_loading = RLock()  # one for all: a late module may need another one


def load_late() -> None:
    """From here on the modules of LATE are loaded late, unless they are loaded already."""
    sys.meta_path.insert(0, LateFinder)


class LateFinder:
    """Finds the modules of LATE, and the one that would load typing_extensions."""

    @staticmethod
    def find_spec(name: str, path: "Sequence[str] | None" = None, target: object = None) -> ModuleSpec | None:
        loader = LateLoader if name in LATE else PlainLoader if name == "msgspec._utils" else None
        spec = PathFinder.find_spec(name, path) if loader else None
        if spec is not None and loader is not None:
            spec.loader = loader(spec.loader)  # type: ignore[assignment]
        return spec


class PlainLoader:
    """msgspec takes typing_extensions where that is installed, and does as well without: it is not there for it."""

    def __init__(self, loader: "Any") -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        hidden = "typing_extensions" not in sys.modules
        if hidden:
            sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        try:
            self.loader.exec_module(module)
        finally:
            if hidden:
                del sys.modules["typing_extensions"]


class LateLoader:
    """Gives out a module that is still empty."""

    def __init__(self, loader: "Any") -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> "LateModule":
        return LateModule(spec.name)

    def exec_module(self, module: "LateModule") -> None:
        assert module.__spec__ is not None
        module.__late__ = module.__loader__ = module.__spec__.loader = self.loader
        module.__dict__.update(STAND_INS.get(module.__name__, {}))


class LateModule(ModuleType):
    """Loaded by whoever first uses something of it; other threads wait until it is."""

    __late__: "Any"

    def __getattr__(self, name: str) -> "Any":
        with _loading:
            loader = self.__dict__.pop("__late__", None)
            if loader is not None:
                try:
                    loader.exec_module(self)
                except BaseException:
                    self.__late__ = loader  # whoever uses it next is told the same
                    raise
                self.__class__ = ModuleType  # type: ignore[assignment]  # nothing of it is special any more
        return ModuleType.__getattribute__(self, name)


# -- what most commands use of a module, until something else of it is used, and it is loaded ------------------------


def _cleandoc(text: str) -> "Any":
    """For the help of each option of click; most are one line."""
    return _loaded("inspect").cleandoc(text) if "\n" in text or "\t" in text else text.lstrip()


def _iscoroutinefunction(function: object) -> "Any":
    """For the handlers of signals in asyncio; most are plain functions."""
    code = getattr(function, "__code__", None)
    return bool(code.co_flags & _CO_COROUTINE) if code else _loaded("inspect").iscoroutinefunction(function)


def _unwrap(function: object) -> "Any":
    """For the text of a task, which Python 3.11 makes, for nobody, when a handler of Ctrl-C takes another's place."""
    return _loaded("inspect").unwrap(function) if hasattr(function, "__wrapped__") else function


def _loaded(name: str) -> "Any":
    module = sys.modules[name]
    if isinstance(module, LateModule):
        module.__getattr__("__name__")
    return module


_CO_COROUTINE = 0x80  # a flag of code
STAND_INS: "dict[str, dict[str, Any]]" = {
    "inspect": {
        "cleandoc": _cleandoc,
        "iscoroutinefunction": _iscoroutinefunction,
        "unwrap": _unwrap,
        "isfunction": lambda value: isinstance(value, FunctionType),
    },
    "platform": {"system": lambda: posix.uname().sysname},  # for uuid
}
