"""Programs that `npx` and `uvx` start from a cache: found before a wall is built, and started behind it themselves.

Behind a wall their cache cannot be written, or a command could plant the program that the user's next `npx` runs. So
the launcher runs outside, installs what it is asked for as it always does, and only tells where that lies.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import DecodeError, Struct
from msgspec.json import decode, encode

from ostler import clock
from ostler.agents.failures import last_line
from ostler.errors import OstlerError
from ostler.work.probe import ProbeCache, is_program, on_path, run

INSTALLING = 300.0  # seconds that a download may take
REMEMBERED = 3600.0  # seconds after which the launcher is asked again: there may be a newer version
_FOUND = "ostler-found:"
_QUIET = ("-y", "--yes", "-q", "--quiet")


class LauncherCall(Struct, frozen=True, kw_only=True):
    """What a launcher is told to start. Without a `program` it is the package's only one, or that of its name."""

    flags: tuple[str, ...] = ()
    package: str
    program: str = ""
    args: tuple[str, ...] = ()


def launcher_call(argv: Sequence[str]) -> LauncherCall | None:
    """What a command line of `npx` or `uvx` starts; None where it is another program, or says more than is known."""
    package_flags = _PACKAGE_FLAGS.get(os.path.basename(argv[0])) if argv else None
    if package_flags is None:
        return None
    flags, package, rest = [], "", list(argv[1:])
    while rest and rest[0].startswith("-"):
        flag, _, value = rest.pop(0).partition("=")
        if flag == "--":
            break
        if flag in package_flags and not package and (value or rest):
            package = value or rest.pop(0)
        elif flag in _QUIET and not value:
            flags.append(flag)
        else:
            return None
    if not rest:
        return None
    program = rest[0] if package else ""
    return LauncherCall(flags=tuple(flags), package=package or rest[0], program=program, args=tuple(rest[1:]))


_PACKAGE_FLAGS = {"npx": ("-p", "--package"), "uvx": ("--from",)}


async def started_itself(argv: Sequence[str], env: Mapping[str, str], cache: ProbeCache) -> tuple[str, ...]:
    """The same without the launcher. `env` is that outside of the wall. Raises missing where it finds no program."""
    call = launcher_call(argv)
    if call is None:
        return tuple(argv)
    key = f"launcher:{encode([argv[0], call.package, call.program, env.get('HOME', '')]).decode()}"
    known = cache.get(key)
    if not (isinstance(known, dict) and clock.now() - known["at"] < REMEMBERED and is_program(known["program"])):
        find = _by_npx if os.path.basename(argv[0]) == "npx" else _by_uvx
        known = {"program": await find(argv[0], call, env), "at": clock.now()}
        await cache.put(key, known)
    return (known["program"], *call.args)


async def _by_npx(npx: str, call: LauncherCall, env: Mapping[str, str]) -> str:
    """It puts the folder of the package's programs first on PATH."""
    line = f'echo "{_FOUND}${{PATH%%:*}}"'
    folder = await _ask([npx, *call.flags, f"--package={call.package}", "-c", line], call, env)
    program = call.program or _only_program(Path(folder).parent.parent)
    return _checked(program and on_path(program, folder), call)


async def _by_uvx(uvx: str, call: LauncherCall, env: Mapping[str, str]) -> str:
    program = call.program or call.package.partition("@")[0]
    line = f'echo "{_FOUND}$(command -v "$0")"'
    return _checked(await _ask([uvx, *call.flags, "--from", call.package, "sh", "-c", line, program], call, env), call)


async def _ask(argv: Sequence[str], call: LauncherCall, env: Mapping[str, str]) -> str:
    code, said = await run(argv, env, INSTALLING)
    found = [line.removeprefix(_FOUND) for line in said.splitlines() if line.startswith(_FOUND)]
    if code != 0 or not found:
        why = last_line(said) or "it did not answer"
        hint = "Install it yourself, and name the program in your settings"
        raise OstlerError("missing", f"{os.path.basename(argv[0])} cannot install {call.package}: {why}", hint)
    return found[0]


def _checked(program: str | None, call: LauncherCall) -> str:
    if not program or not is_program(program):
        raise OstlerError("missing", f"the package {call.package} has no program {call.program or 'of its name'}")
    return program


def _only_program(installed: Path) -> str:
    """The program that npx would start: the package's only one, else the one that is called like it."""
    try:
        (package,) = decode((installed / "package.json").read_bytes())["dependencies"]
        manifest = decode((installed / "node_modules" / package / "package.json").read_bytes())
        programs = manifest.get("bin", {})
    except (OSError, DecodeError, ValueError, KeyError, TypeError):
        return ""
    own = str(package).rpartition("/")[2]
    if isinstance(programs, str) or not isinstance(programs, dict):
        return own
    return next(iter(programs)) if len({*programs.values()}) == 1 else own
