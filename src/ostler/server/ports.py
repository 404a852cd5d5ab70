"""Sockets to listen on, and who has a port that is taken."""

import ipaddress
import os
import socket
from contextlib import suppress

from msgspec import Struct

from ostler.errors import OstlerError, quoted
from ostler.process import tree

LOOPBACK = "127.0.0.1"


class Listening(Struct, frozen=True):
    """Bound sockets, their addresses and their port."""

    sockets: tuple[socket.socket, ...]
    addresses: tuple[str, ...]
    port: int

    def close(self) -> None:
        for each in self.sockets:
            each.close()


def listen(host: str, port: int) -> Listening:
    """Binds an address; of the loopback both kinds, if the port is free on both. Raises OSError when it is taken."""
    first = _bound(host, port)
    port = first.getsockname()[1]
    if host != LOOPBACK:
        known = ("::1" if ":" in host else LOOPBACK) if is_any(host) else host
        return Listening((first,), (known,), port)
    with suppress(OSError):  # no IPv6 here, or the port is another's there
        return Listening((first, _bound("::1", port)), (LOOPBACK, "::1"), port)
    return Listening((first,), (LOOPBACK,), port)


def checked_host(host: str, exposed: bool) -> str:
    """The address to listen on. Beyond the loopback only for those who say that they mean it."""
    try:
        address = ipaddress.ip_address(LOOPBACK if host == "localhost" else host)
    except ValueError:
        raise OstlerError("bad_request", f"{quoted(host)} is not an IP address", "Write one like 127.0.0.1") from None
    if not address.is_loopback and not exposed:
        raise OstlerError(
            "bad_request",
            f"{host} can be reached from other machines, and whoever gets in can run programs here",
            "If that is what you want, add --expose; an SSH tunnel to the loopback is safer",
        )
    return str(address)


def is_any(host: str) -> bool:
    return ipaddress.ip_address(host).is_unspecified


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, since asyncio turns Nagle's delay off only for what it knows to be TCP: an answer took 40 ms longer.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # A port of a server that has just ended is free again at once; one that is in use stays refused.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
        bound.listen(512)  # at once: a port that is bound alone could be listened on by another
        bound.setblocking(False)
    except BaseException:
        bound.close()
        raise
    return bound


def who_listens(port: int) -> str:
    """`1234 (python -m ostler up)` of a process of this user; "" if it is another's or nobody's."""
    wanted = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for pid in filter(str.isdigit, os.listdir("/proc")) if wanted else ():
        if wanted & _open_files(pid):
            return f"{pid} ({tree.command(int(pid))})"
    return ""


def _listening_inodes(port: int) -> list[str]:
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError), open(table) as lines:  # no such table: no IPv6 here
            rows = [line.split() for line in lines][1:]
            found += [row[9] for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port]
    return found


def _open_files(pid: str) -> set[str]:
    found = set()
    with suppress(OSError):  # another user's, or gone
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):  # closed since it was listed
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found
