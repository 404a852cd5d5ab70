"""Runs a program where no sandbox of its own can start: a Landlock domain that allows every file forbids mounts.

python unsandboxable.py PROGRAM ARGUMENT…
"""

import ctypes
import os
import struct
import sys

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_EVERYTHING = (1 << 13) - 1  # the file rights of Landlock's first version


def main() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    wanted = struct.pack("=Q", _EVERYTHING)
    domain = libc.syscall(_CREATE, wanted, len(wanted), 0)
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    rule = struct.pack("=Qi", _EVERYTHING, root)
    failed = domain < 0 or libc.syscall(_ADD_RULE, domain, 1, rule, 0) or libc.prctl(38, 1, 0, 0, 0)
    if failed or libc.syscall(_RESTRICT, domain, 0):
        sys.exit(f"no Landlock here: {os.strerror(ctypes.get_errno())}")
    os.close(domain)
    os.execv(sys.argv[1], sys.argv[1:])


main()
