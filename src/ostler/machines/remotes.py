"""The repository that a folder belongs to, in a form that is the same on every machine and holds no login."""

import re
from configparser import ConfigParser
from configparser import Error as ConfigError
from pathlib import Path
from urllib.parse import urlsplit

_SCP = re.compile(r"(?:[^@/]+@)?([^:/]+):(?!//)(.+)")  # git@host:owner/name.git


def plain_remote(url: str) -> str:
    """`github.com/owner/name` of any way to write it; "" for a path of this machine, and for what is no URL."""
    url = url.strip()
    if "://" in url:
        try:
            parts = urlsplit(url)
        except ValueError:  # `https://[bad/x.git`: git itself says so when it is used
            return ""
        host, path = (parts.hostname or "").lower(), parts.path
        if parts.scheme == "file":
            return ""
    elif (found := _SCP.fullmatch(url)) is not None:
        host, path = found[1].lower(), found[2]
    else:
        return ""
    path = path.strip("/").removesuffix(".git")
    return f"{host}/{path}" if host and path else ""


def remote_of(folder: str) -> str:
    """That of `origin`, else of the first remote; "" where there is none. No program is run."""
    config = _git_config(Path(folder))
    if config is None:
        return ""
    parser = ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    try:
        parser.read_string(config.read_text(errors="replace"))
    except (OSError, ConfigError):
        return ""  # it cannot be read: then nobody is told of it
    remotes = {name: section.get("url") or "" for name, section in parser.items() if name.startswith('remote "')}
    url = remotes.get('remote "origin"') or next(iter(remotes.values()), "")
    return plain_remote(url)


def top_of(folder: str) -> Path | None:
    """The top of the repository, or worktree, that a folder is in."""
    return next((level for level in (Path(folder), *Path(folder).parents) if (level / ".git").exists()), None)


def _git_config(folder: Path) -> Path | None:
    """The config of the repository that this folder is in; of a worktree, that of its main one."""
    top = top_of(str(folder))
    if top is None:
        return None
    git = top / ".git"
    return git / "config" if git.is_dir() else _of_worktree(git)


def _of_worktree(git: Path) -> Path | None:
    try:
        where = git.read_text(errors="replace").removeprefix("gitdir:").strip()
        folder = (git.parent / where).resolve()
        common = folder / "commondir"
        return (folder / common.read_text().strip() if common.exists() else folder) / "config"
    except (OSError, ValueError):
        return None  # not one that can be read
