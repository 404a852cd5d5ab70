"""The one place that talks to libghostty-vt (pyghostty 0.1.3): raw calls on a handle, with plain values in and out.

pyghostty can end the process it lives in. Only the screen process imports this module.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ostler.terminal.ghostty_types import ffi, lib, make

VERSION = ffi.from_buffer(b"ostler")  # the answer to XTVERSION
TERMINFO = ffi.from_buffer(b"xterm-256color")
CELL_PX = (8, 16)
PLAIN, VT = lib.GHOSTTY_FORMATTER_FORMAT_PLAIN, lib.GHOSTTY_FORMATTER_FORMAT_VT


class EmulatorListener(Protocol):
    """Who is told, during a feed and in stream order, what the terminal has to say. Nothing here may raise."""

    size: tuple[int, int]

    def reply(self, data: bytes) -> None: ...
    def bell(self) -> None: ...
    def titled(self) -> None: ...
    def moved(self) -> None: ...
    def note(self, title: str, body: str) -> None: ...
    def progress(self, state: int, percent: int) -> None: ...
    def unknown(self, content: bytes) -> None: ...


class Options(NamedTuple):
    """What a new terminal is given. Line limits make the library crash: bytes are what is limited."""

    scrollback_bytes: int
    scrollback_lines: int
    continuation_bytes: int
    unknown_bytes: int
    foreground: tuple[int, int, int]
    background: tuple[int, int, int]


class GhosttyFault(RuntimeError):
    """The library refused a call."""


def check(result: int, what: str) -> None:
    if result:
        raise GhosttyFault(f"{what}: {result}")


def new(cols: int, rows: int) -> Any:
    """A terminal handle; freed by `free`."""
    out = make("GhosttyTerminal*")
    check(lib.ghostty_terminal_new(ffi.NULL, out, cols, rows), "new")
    return out[0]


def free(handle: Any) -> None:
    lib.ghostty_terminal_free(handle)


def decode(data: bytes) -> Any:
    """A terminal from what `encode` gave: both screens, scrollback, modes, and a sequence cut in two."""
    decoder, out = make("GhosttySnapshotDecoder*"), make("GhosttyTerminal*")
    source = ffi.from_buffer(data)
    check(lib.ghostty_snapshot_decoder_new_buf(ffi.NULL, decoder, source, len(data)), "decoder")
    try:
        check(lib.ghostty_snapshot_decoder_decode(decoder[0], out), "decode")
    finally:
        lib.ghostty_snapshot_decoder_free(decoder[0])
    return out[0]


def encode(handle: Any) -> bytes:
    """The whole terminal in the library's own form. Raises GhosttyFault inside an endless sequence."""
    return taken(lambda *out: lib.ghostty_snapshot_encode_alloc(handle, ffi.NULL, *out), "encode")


def feed(handle: Any, data: bytes) -> None:
    lib.ghostty_terminal_vt_write(handle, data, len(data))


def resize(handle: Any, cols: int, rows: int) -> None:
    check(lib.ghostty_terminal_resize(handle, cols, rows, *CELL_PX), "resize")


def continuation(handle: Any) -> bytes:
    """The bytes of a sequence or character that is not complete yet. Raises GhosttyFault if they are too many."""
    return taken(lambda *out: lib.ghostty_terminal_continuation_alloc(handle, ffi.NULL, *out), "continuation")


def taken(call: Callable[[Any, Any], int], what: str) -> bytes:
    """What the library has put into memory of its own, which is given back."""
    check(call(_taken, _taken_size), what)
    try:
        return bytes(ffi.buffer(_taken[0], _taken_size[0])) if _taken_size[0] else b""
    finally:
        lib.ghostty_free(ffi.NULL, _taken[0], _taken_size[0])


_taken, _taken_size = make("uint8_t**"), make("size_t*")


# -- what a terminal is told at its start ----------------------------------------------------------------


def configure(handle: Any, options: Options, listener: Any) -> None:
    """Sets limits, colours and callbacks; `listener` is a handle made by `handle_of`."""
    put(handle, "SCROLLBACK_MAX_BYTES", make("size_t*", options.scrollback_bytes))
    put(handle, "SCROLLBACK_MAX_LINES", make("size_t*", options.scrollback_lines))
    put(handle, "CONTINUATION_MAX_BYTES", make("size_t*", options.continuation_bytes))
    put(handle, "KITTY_IMAGE_STORAGE_LIMIT", make("uint64_t*", 0))  # no pictures: nobody could show them
    put(handle, "UNKNOWN_MAX_BYTES", make("size_t*", options.unknown_bytes))
    put(handle, "TERMINFO_NAME", string_of(TERMINFO))
    put(handle, "COLOR_FOREGROUND", make("GhosttyColorRgb*", options.foreground))
    put(handle, "COLOR_BACKGROUND", make("GhosttyColorRgb*", options.background))
    put(handle, "USERDATA", listener)
    for name, callback in CALLBACKS.items():
        put(handle, name, callback)


def handle_of(listener: EmulatorListener) -> Any:
    """The library's pointer to `listener`; must be kept as long as the terminal lives."""
    return ffi.new_handle(listener)


def put(handle: Any, option: str, value: Any) -> None:
    check(lib.ghostty_terminal_set(handle, getattr(lib, f"GHOSTTY_TERMINAL_OPT_{option}"), value), option)


def string_of(buffer: Any) -> Any:
    text = make("GhosttyString*")
    text.ptr, text.len = buffer, len(buffer)
    return text


def text_of(string: Any) -> str:
    return bytes(ffi.buffer(string.ptr, string.len)).decode(errors="replace") if string.len else ""


@ffi.callback("GhosttyTerminalWritePtyFn")  # type: ignore[untyped-decorator]
def _reply(_: Any, listener: Any, data: Any, size: int) -> None:
    ffi.from_handle(listener).reply(bytes(ffi.buffer(data, size)))


@ffi.callback("GhosttyTerminalBellFn")  # type: ignore[untyped-decorator]
def _bell(_: Any, listener: Any) -> None:
    ffi.from_handle(listener).bell()


@ffi.callback("GhosttyTerminalTitleChangedFn")  # type: ignore[untyped-decorator]
def _titled(_: Any, listener: Any) -> None:
    ffi.from_handle(listener).titled()


@ffi.callback("GhosttyTerminalPwdChangedFn")  # type: ignore[untyped-decorator]
def _moved(_: Any, listener: Any) -> None:
    ffi.from_handle(listener).moved()


@ffi.callback("GhosttyTerminalDesktopNotificationFn")  # type: ignore[untyped-decorator]
def _note(_: Any, listener: Any, note: Any) -> None:
    ffi.from_handle(listener).note(text_of(note.title), text_of(note.body))


@ffi.callback("GhosttyTerminalProgressReportFn")  # type: ignore[untyped-decorator]
def _progress(_: Any, listener: Any, report: Any) -> None:
    ffi.from_handle(listener).progress(int(report.state), report.progress)


@ffi.callback("GhosttyTerminalUnknownSequenceFn")  # type: ignore[untyped-decorator]
def _unknown(_: Any, listener: Any, sequence: Any) -> None:
    if sequence.tag == lib.GHOSTTY_TERMINAL_UNKNOWN_SEQUENCE_OSC and not sequence.value.osc.truncated:
        content = sequence.value.osc.content
        ffi.from_handle(listener).unknown(bytes(ffi.buffer(content.ptr, content.len)) if content.len else b"")


@ffi.callback("GhosttyTerminalSizeFn")  # type: ignore[untyped-decorator]
def _size(_: Any, listener: Any, out: Any) -> bool:
    out.columns, out.rows = ffi.from_handle(listener).size
    out.cell_width, out.cell_height = CELL_PX
    return True


@ffi.callback("GhosttyTerminalColorSchemeFn")  # type: ignore[untyped-decorator]
def _scheme(_: Any, listener: Any, out: Any) -> bool:
    out[0] = lib.GHOSTTY_COLOR_SCHEME_DARK
    return True


_version_string = string_of(VERSION)


@ffi.callback("GhosttyTerminalXtversionFn")  # type: ignore[untyped-decorator]
def _version(_: Any, listener: Any) -> Any:
    return _version_string[0]


CALLBACKS = {
    "WRITE_PTY": _reply,
    "BELL": _bell,
    "TITLE_CHANGED": _titled,
    "PWD_CHANGED": _moved,
    "DESKTOP_NOTIFICATION": _note,
    "PROGRESS_REPORT": _progress,
    "UNKNOWN_SEQUENCE": _unknown,
    "SIZE": _size,
    "COLOR_SCHEME": _scheme,
    "XTVERSION": _version,
}
