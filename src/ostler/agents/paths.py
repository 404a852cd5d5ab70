"""Paths that agents name, held against the folder of their turn as far as that can be told without looking. Pure."""


def is_inside(path: str, folder: str) -> bool:
    """Whether an absolute path lies in the folder."""
    return path.startswith(_root(folder)) and ".." not in path.split("/")


def may_be_inside(path: str, folder: str) -> bool:
    """The same, where of a relative path nothing else is known; `~` may be somebody's home."""
    return is_inside(path, folder) if path.startswith(("/", "~")) else ".." not in path.split("/")


def relative_to(path: str, folder: str) -> str:
    """The path as people see it: from the folder, where it lies there."""
    return path.removeprefix(_root(folder))


def _root(folder: str) -> str:
    return folder.rstrip("/") + "/"
