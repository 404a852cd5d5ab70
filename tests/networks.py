"""Networks of their own for tests: each machine has a namespace and a cable to a hub, which can be pulled."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

RELAY = Path(__file__).parent / "relay.py"


class Networks:
    """The hub is 10.77.0.1; machines have the next addresses. Nothing of the network of this machine is touched."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack, self._name, self._count = stack, f"ost{os.getpid() % 100000}", 1
        self.hub = self._namespace("hub")
        self._ip("-n", self.hub, "link", "add", "br0", "type", "bridge")
        self._ip("-n", self.hub, "addr", "add", "10.77.0.1/24", "dev", "br0")
        self._up(self.hub, "br0")

    def add(self) -> tuple[str, str]:
        """Another namespace, and its address."""
        self._count += 1
        name, cable, address = self._namespace(str(self._count)), f"v{self._count}", f"10.77.0.{self._count}"
        self._ip("-n", self.hub, "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        self._ip("-n", self.hub, "link", "set", cable, "master", "br0")
        self._ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        self._up(self.hub, cable)
        self._up(name, "eth0")
        return name, address

    def pull(self, address: str, *, back: bool = False) -> None:
        """Pulls the cable of a machine, or puts it back."""
        cable = f"v{address.rpartition('.')[2]}"
        self._ip("-n", self.hub, "link", "set", cable, "up" if back else "down")

    def relay(self, namespace: str, listen: str, target: str) -> None:
        """Passes bytes on, from within a namespace."""
        argv = ["ip", "netns", "exec", namespace, sys.executable, str(RELAY), listen, target]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        self._stack.callback(process.stdout.close)

    def _namespace(self, name: str) -> str:
        name = f"{self._name}-{name}"
        self._ip("netns", "add", name)
        self._stack.callback(self._ip, "netns", "del", name)
        self._up(name, "lo")
        return name

    def _up(self, namespace: str, device: str) -> None:
        self._ip("-n", namespace, "link", "set", device, "up")

    def _ip(self, *args: str) -> None:
        subprocess.run(["ip", *args], check=True, capture_output=True)


@contextmanager
def networks() -> Iterator[Networks]:
    with ExitStack() as stack:
        yield Networks(stack)
