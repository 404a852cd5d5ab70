"""Settings belong to the folder of a turn: its `ostler.toml` counts there, whichever door the turn came by."""

from collections.abc import Callable, Mapping

from msgspec import structs

from ostler.settings import Loaded, Settings, load_settings

LoadSettings = Callable[[str], Loaded]
"""The settings that hold in a folder, read anew: a file that has changed counts from the next turn on."""


def loader(environ: Mapping[str, str]) -> LoadSettings:
    """Reads the user's file and the folder's, with the user's own list of what is trusted."""
    return lambda folder: load_settings(folder=folder, environ=environ)


# What belongs to the process: where its state is, and how it is reached.
PROCESS = ("home", "state", "port", "only", "scenario")


class FolderSettings:
    """The settings of each folder that turns run in. Without `load`, those of the process hold everywhere."""

    def __init__(self, process: Settings, load: LoadSettings | None) -> None:
        self._process = process
        self._load = load

    def of(self, folder: str) -> Loaded:
        """Raises bad_request for what is wrong in a file."""
        if self._load is None:
            return Loaded(settings=self._process)
        loaded = self._load(folder)
        own = {name: getattr(self._process, name) for name in PROCESS}
        return structs.replace(loaded, settings=structs.replace(loaded.settings, **own))
