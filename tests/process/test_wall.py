"""Walls around real processes. The tries of an attacker stand in tests/security/test_walls.py."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from needs import needs
from ostler.errors import OstlerError
from ostler.model import Wall
from ostler.process import Size, Warden, chunks, landlock

pytestmark = needs("landlock")


@pytest.fixture
def shell(spawn: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a line of sh behind a wall; its exit code and output."""

    async def run(line: str, wall: Wall | None, **options: Any) -> tuple[int | None, str]:
        process = await spawn("/bin/sh", "-c", f"({line}) 2>&1", wall=wall, **options)
        output = b"".join([chunk async for chunk in chunks(process.stdout_fd)])
        return (await process.wait()).code, output.decode()

    return run


async def test_only_what_is_writable_can_be_written(shell: Callable[..., Any], tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (outside / "edited").write_text("old")
    wall = Wall(writable=(str(inside),), editable=(str(outside / "edited"),))
    assert await shell(
        f"echo new > {inside}/a && mkdir {inside}/b && mv {inside}/a {inside}/b/ && cat {inside}/b/a", wall
    ) == (
        0,
        "new\n",
    )
    assert await shell(f"echo new > {outside}/edited && cat {outside}/edited {outside}/kept", wall) == (0, "new\nkept")
    for line in (
        f"echo x > {outside}/made",
        f"echo x > {outside}/kept",
        f"rm {outside}/kept",
        f"rm {outside}/edited",
        f"mv {outside}/kept {inside}/taken",
        f"ln {outside}/kept {inside}/linked",
        f"ln -s {outside} {inside}/way; echo x > {inside}/way/made",
        f"mknod {inside}/disk b 8 0",
    ):
        code, output = await shell(line, wall)
        assert code != 0 and ("denied" in output or "not permitted" in output or "cross-device" in output), (
            line,
            output,
        )
    assert sorted(os.listdir(outside)) == ["edited", "kept"] and (outside / "kept").read_text() == "kept"


async def test_what_it_starts_is_inside_too_and_the_warden_is_not(
    shell: Callable[..., Any], warden: Warden, tmp_path: Path
) -> None:
    wall = Wall(writable=(str(tmp_path / "inside"),))
    code, _ = await shell(f"setsid sh -c 'sh -c \"echo x > {tmp_path}/made\"'", wall)
    assert code != 0 and not (tmp_path / "made").exists()
    status = Path(f"/proc/{warden.pid}/status").read_text()
    assert "NoNewPrivs:\t0" in status and "Seccomp:\t0" in status
    assert await shell(f"echo x > {tmp_path}/made", None) == (0, "")


async def test_unix_sockets_are_beyond_it_unless_it_has_them(spawn: Callable[..., Any], tmp_path: Path) -> None:
    server = await asyncio.start_unix_server(lambda reader, writer: writer.close(), tmp_path / "s")
    code = f"import socket; socket.socketpair(); socket.socket(socket.AF_UNIX).connect({str(tmp_path / 's')!r})"
    async with server:
        for wall, expected in ((Wall(), 1), (Wall(sockets=True), 0), (None, 0)):
            process = await spawn(sys.executable, "-c", code, wall=wall)
            assert (await process.wait()).code == expected, wall


async def test_reading_is_confined_where_that_is_wanted(shell: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "a").write_text("a")
    (tmp_path / "secret").write_text("s")
    system = tuple(path for path in ("/bin", "/usr", "/lib", "/lib64", "/etc") if os.path.exists(path))
    wall = Wall(readable=(*system, str(tmp_path / "open")))
    assert await shell(f"cat {tmp_path}/open/a", wall, cwd=str(tmp_path / "open")) == (0, "a")
    code, output = await shell(f"cat {tmp_path}/secret", wall, cwd=str(tmp_path / "open"))
    assert code != 0 and "denied" in output


async def test_a_terminal_behind_a_wall(spawn: Callable[..., Any], tmp_path: Path) -> None:
    process = await spawn(
        "/bin/sh", "-c", "tty > seen; echo here", wall=Wall(writable=(str(tmp_path),)), tty=Size(80, 24)
    )
    assert (await process.wait()).code == 0
    assert (tmp_path / "seen").read_text().startswith("/dev/pts/")


async def test_errors_of_the_program_stay_what_they_are(spawn: Callable[..., Any]) -> None:
    with pytest.raises(OstlerError) as caught:
        await spawn("/nowhere/program", wall=Wall())
    assert caught.value.kind == "missing"


async def test_without_a_wall_nothing_starts(spawn: Callable[..., Any], tmp_path: Path) -> None:
    """A path that cannot be opened is one of the errors that a wall can have."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OstlerError) as caught:
        await spawn("/bin/sh", "-c", f"echo x > {tmp_path}/made", wall=Wall(writable=(str(tmp_path / "file" / "x"),)))
    assert (caught.value.kind, caught.value.message) == (
        "denied",
        "cannot build the wall around /bin/sh: Not a directory",
    )
    assert not (tmp_path / "made").exists()


# The rights of each kernel's Landlock, as older ones have them.
OLDER = """
import os, sys
from ostler.process import landlock
os.chdir(sys.argv[2])
start = lambda: os.posix_spawn("/bin/sh", ["sh", "-c", "echo x > ../outside; echo x > inside"], os.environ)
try:
    pid = landlock.start_behind(([os.fsencode(os.getcwd())], [], None, False), start, int(sys.argv[1]))
    os.waitpid(pid, 0)
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize("version", range(10))
async def test_every_version_of_the_kernels_walls(version: int, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", OLDER, str(version), str(folder)), stdout=-1, stderr=asyncio.subprocess.DEVNULL
    )
    output = (await process.communicate())[0].decode()
    assert output == ("" if version >= landlock.LEAST_ABI else "this kernel cannot build walls\n")
    assert (folder / "inside").exists() is (version >= landlock.LEAST_ABI)
    assert not (tmp_path / "outside").exists()
