"""What an agent may have done on this machine through ostler: files beneath its folder, and terminals."""

import asyncio
import os
from typing import Any

from ostler.agents.dialog import Call
from ostler.errors import OstlerError
from ostler.store.files import open_beneath
from ostler.words import Turn

FILE_LIMIT = 64 * 1024 * 1024


class Calls:
    """Serves the calls of one turn, within its access."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn

    async def serve(self, call: Call) -> dict[str, Any]:
        """The result of the call. Raises denied, not_found, bad_request, unsupported."""
        match call.name:
            case "read_file":
                return await asyncio.to_thread(self._read, call.params)
            case "write_file":
                return await asyncio.to_thread(self._write, call.params)
            case _:
                raise OstlerError("unsupported", f"{call.name} is not offered")

    def _read(self, params: dict[str, Any]) -> dict[str, Any]:
        fd = open_beneath(self.turn.folder, self._beneath(params))
        with open(fd, "rb") as file:
            data = file.read(FILE_LIMIT + 1)
        if len(data) > FILE_LIMIT:
            raise OstlerError("bad_request", f"the file has more than {FILE_LIMIT:,} bytes")
        lines = data.decode("utf-8", "replace").splitlines(keepends=True)
        first = max(1, params.get("line") or 1) - 1
        limit = params.get("limit")
        return {"content": "".join(lines[first:] if limit is None else lines[first : first + limit])}

    def _write(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.turn.access == "read":
            raise OstlerError("denied", "this turn may not write", "Run it with --access write")
        data = str(params.get("content", "")).encode()
        path = self._beneath(params)
        self._make_folders(os.path.dirname(path))
        fd = open_beneath(self.turn.folder, path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with open(fd, "wb") as file:
            file.write(data)
        return {}

    def _beneath(self, params: dict[str, Any]) -> str:
        """The path relative to the folder; what leads out of it is refused by `open_beneath` in any case."""
        path = params.get("path")
        if not isinstance(path, str) or not path:
            raise OstlerError("bad_request", "a path is needed")
        if not os.path.isabs(path):
            return path
        inside = os.path.relpath(path, self.turn.folder)
        if inside == ".." or inside.startswith("../"):
            raise OstlerError("denied", f"{path} is outside of {self.turn.folder}")
        return inside

    def _make_folders(self, path: str) -> None:
        """Creates what is missing, one step at a time, each beneath the folder."""
        done = ""
        for name in path.split("/") if path else ():
            parent = open_beneath(self.turn.folder, done or ".", os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.mkdir(name, 0o755, dir_fd=parent)
            except FileExistsError:
                pass
            finally:
                os.close(parent)
            done = f"{done}/{name}" if done else name
