"""libghostty-vt: the library of pyghostty, by declarations that are compiled already (see tools/ghostty_c.py)."""

import importlib.util
import os
from typing import Any

from ostler.terminal.ghostty_c import ffi as _ffi

MODES = 12  # those that are read at once
ARRAYS = {
    "modes": f"GhosttyTerminalModeConfig[{MODES}]",
    "keys": f"GhosttyTerminalData[{MODES + 3}]",
    "values": f"void*[{MODES + 3}]",
    "text": "char[64]",
}


def _open() -> Any:
    found = importlib.util.find_spec("pyghostty")  # to import it would parse all of its declarations
    if found is None or found.origin is None:
        raise ModuleNotFoundError("pyghostty is not installed", name="pyghostty")
    folder = os.path.join(os.path.dirname(found.origin), "_lib")
    name = next(name for name in os.listdir(folder) if name.startswith("libghostty-vt."))
    return _ffi.dlopen(os.path.join(folder, name))


ffi: Any = _ffi
lib: Any = _open()


def make(name: str, value: Any = None) -> Any:
    """A new value of a C type, or of one of the arrays above."""
    return ffi.new(ARRAYS.get(name, name), value)
