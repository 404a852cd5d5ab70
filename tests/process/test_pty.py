"""A program in a terminal of ours: what it wrote last is read, however far behind its reader is."""

from ostler.model import Exit
from ostler.process import Size
from ostler.process.pty import Pty


async def test_the_last_words_of_a_program_come_although_reading_is_held(spawn, until):
    """The emulation is behind for longer than a program that has ended is waited for."""
    pty = Pty(await spawn("sh", "-c", "echo first; read -r line; echo last", tty=Size(80, 24)))
    seen = bytearray()
    pty.start(seen.extend, crowded=lambda: True)
    await until(lambda: b"first" in seen)
    pty.write(b"\n")
    assert await pty.to_end() == Exit(code=0)
    assert seen.endswith(b"last\r\n")
