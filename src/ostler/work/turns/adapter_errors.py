"""Errors in an adapter: they cost the record that it stumbled over, and are told once for each kind."""

import logging
import os
import traceback

from ostler.model import AnyEvent, Notice

MOST = 20  # kinds of errors that one turn is told of

_log = logging.getLogger(__name__)


class AdapterErrors:
    """What went wrong in one turn's adapter so far."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._known: set[str] = set()

    def notices(self, error: Exception) -> list[AnyEvent]:
        """The notice of an error of a new kind (its type, and where it was raised); of a known one, none."""
        kind = f"{type(error).__name__} in {_place(error)}"
        if kind in self._known or len(self._known) >= MOST:
            return []
        self._known.add(kind)
        _log.warning("the adapter of %s failed: %s", self._agent, kind)  # its message may quote the record
        said = f": {error}"[:500] if str(error) else ""
        text = f"ostler could not read a record of {self._agent} and kept it as it is ({kind}{said})"
        return [Notice(code="adapter_error", text=text, quiet=True)]


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "an unknown place"
