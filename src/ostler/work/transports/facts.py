"""What is true of each transport."""

from typing import Literal

from ostler.model import TransportName

# Those that a turn can ask for, and those of a command: in its own terminal, or nothing at all to run.
AnyTransport = TransportName | Literal["terminal", "nothing"]
