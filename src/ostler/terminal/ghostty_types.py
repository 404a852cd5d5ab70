"""The C types of libghostty-vt that ostler uses, all read by one run of the parser.

cffi takes some 10 ms for each type that is asked for by name, which was most of the start of a screen process.
"""

from typing import Any

from pyghostty import ffi as _ffi  # type: ignore[import-untyped,import-not-found,unused-ignore]
from pyghostty import lib as _lib

ffi: Any = _ffi
lib: Any = _lib

POINTERS = (
    *("bool", "int", "uint8_t", "uint8_t*", "uint16_t", "uint64_t", "size_t"),
    *("GhosttyTerminal", "GhosttySnapshotDecoder", "GhosttyColorRgb", "GhosttyString", "GhosttyTerminalModeConfig"),
    *("GhosttyFormatter", "GhosttyFormatterTerminalOptions", "GhosttySelection", "GhosttyGridRef", "GhosttyPointS"),
    *(
        "GhosttyRenderState",
        "GhosttyRenderStateRowIterator",
        "GhosttyCellsView",
        "GhosttyKeyEncoder",
        "GhosttyKeyEvent",
    ),
)
CALLBACKS = (
    *("WritePty", "Bell", "TitleChanged", "PwdChanged", "DesktopNotification", "ProgressReport"),
    *("UnknownSequence", "Size", "ColorScheme", "Xtversion"),
)
MODES = 12  # those that are read at once
DECLARED = {
    **{f"{name}*": f"{name}* @" for name in POINTERS},
    **{name: f"GhosttyTerminal{name}Fn @" for name in CALLBACKS},
    "modes": f"GhosttyTerminalModeConfig @[{MODES}]",
    "keys": f"GhosttyTerminalData @[{MODES + 3}]",
    "values": f"void* @[{MODES + 3}]",
    "text": "char @[64]",
    # A point is passed by value, which cffi cannot do with its union: pyghostty has a struct of the same form.
    "grid_ref": "GhosttyResult (*@)(GhosttyTerminal, GhosttyPointS, GhosttyGridRef*)",
}


def _read() -> dict[str, Any]:
    fields = "".join(declared.replace("@", f"f{at}") + ";" for at, declared in enumerate(DECLARED.values()))
    ffi.cdef(f"typedef struct {{ {fields} }} OstlerTypes;")
    found = ffi.typeof("OstlerTypes").fields
    return {name: field.type for name, (_, field) in zip(DECLARED, found, strict=True)}


TYPES = _read()


def make(name: str, value: Any = None) -> Any:
    """A new value of a type that is declared above."""
    return ffi.new(TYPES[name], value)
